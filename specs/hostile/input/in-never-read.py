# in-never-read  [input]
# Tries: never read an input that never ends, and end
# Must hold afterwards: the client ends when the program does
# Expected: status exit, exit code 4, survivors 0, wall <= 6 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import time
time.sleep(1)
done()
os._exit(4)
