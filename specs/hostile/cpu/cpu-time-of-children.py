# cpu-time-of-children  [cpu]
# Tries: use processor time in orphans that somebody else reaps, so that it is not seen in the
# program's own figures
# Must hold afterwards: the reported processor time counts them
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import time
def burn(s):
    end = time.process_time() + s
    while time.process_time() < end:
        pass
for _ in range(2):
    if os.fork() == 0:
        if os.fork() == 0:
            burn(0.7)
        os._exit(0)
    os.wait()
time.sleep(0.2)
burn(0.3)
deadline = time.time() + 6
while len([p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid(), os.getppid())]) and time.time() < deadline:
    time.sleep(0.05)
done()
