# fs-growing-file  [filesystem]
# Tries: end at once, while an orphan lets a file grow, shrinks it and replaces it by a pipe,
# as it is brought back
# Must hold afterwards: collecting ends in time and brings no more than the disk limit
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import time
open("plain.txt", "w").write("harmless")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            try:
                with open("grow", "wb", buffering=0) as f:
                    for _ in range(40):
                        f.write(b"g" * (1 << 20))
                os.unlink("grow")
                os.mkfifo("grow")
                os.unlink("grow")
            except OSError:
                pass
    os._exit(0)
time.sleep(0.3)
print("FINISHED", flush=True)
os._exit(0)
