# out-closed-streams  [output]
# Tries: close its standard streams, put other things in their place, and end with 5
# Must hold afterwards: the run ends with 5 and without output
# Expected: status exit, exit code 5, survivors 0, wall <= 6 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
for fd in (0, 1, 2):
    os.close(fd)
for _ in range(3):
    os.open("/dev/null", os.O_RDWR)
os._exit(5)
