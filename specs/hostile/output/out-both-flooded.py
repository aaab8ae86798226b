# out-both-flooded  [output]
# Tries: flood stdout and stderr at once from eight processes, each in another chunk size
# Must hold afterwards: both are cut and said to be, the rest is counted, and the clock ends
# the run
# Expected: status killed:timeout|killed:cpu|killed:output, survivors 0, wall <= 8 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
for i in range(8):
    if os.fork() == 0:
        chunk = bytes([65 + i]) * (1 << (2 * i + 2))
        while True:
            os.write(1 + i % 2, chunk)
for _ in range(8):
    os.wait()
