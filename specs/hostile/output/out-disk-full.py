# out-disk-full  [output]
# Tries: leave the disk full
# Must hold afterwards: reported as a limit that was hit; the program's own end is kept and
# small files still come back
# Expected: status exit, exit code 8, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
open("plain.txt", "w").write("plain")
try:
    with open("full", "wb", buffering=0) as f:
        while True:
            f.write(b"f" * (1 << 20))
except OSError as e:
    print("stopped:", e.strerror)
print("FINISHED")
sys.exit(8)
