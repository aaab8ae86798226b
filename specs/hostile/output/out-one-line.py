# out-one-line  [output]
# Tries: one line of 60 MB without an end, then an exit code
# Must hold afterwards: cut at the limit, counted in full, exit code kept
# Expected: status exit, exit code 9, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
for _ in range(60):
    os.write(1, b"l" * (1 << 20))
os._exit(9)
