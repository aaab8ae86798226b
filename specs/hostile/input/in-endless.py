# in-endless  [input]
# Tries: read a little of an input that never ends, and end
# Must hold afterwards: the client ends too, and stores none of it
# Expected: status exit, exit code 4, survivors 0, wall <= 6 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
data = os.read(0, 65536)
if not data:
    print("no input")
done()
os._exit(4)
