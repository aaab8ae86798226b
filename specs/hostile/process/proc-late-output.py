# proc-late-output  [process]
# Tries: exit at once with 3 and leave a daemon in its own session that keeps writing, so that
# output of a finished run would go on or change
# Must hold afterwards: the daemon is dead before it writes a second later; the exit code is 3
# Expected: status exit, exit code 3, survivors 0, wall <= 6 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import time
print("MAIN-ENDED", flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1.5)
        esc("written after the end")
        while True:
            os.write(1, b"ESCAPED:late\n")
            time.sleep(0.2)
    os._exit(0)
os._exit(3)
