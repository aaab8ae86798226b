# proc-orphan-reaping  [process]
# Tries: make 600 short-lived orphans under a limit of 64 processes; if nobody reaps them the
# limit fills with the dead
# Must hold afterwards: process 1 reaps: forking still works at the end
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import time
made = refused = 0
while made < 600 and refused < 100:
    try:
        pid = os.fork()
    except OSError:
        refused += 1
        time.sleep(0.02)
        continue
    refused = 0
    if pid == 0:
        try:
            if os.fork() == 0:
                os._exit(0)
        except OSError:
            pass
        os._exit(0)
    os.waitpid(pid, 0)
    made += 1
time.sleep(0.3)
dead = 0
for p in os.listdir("/proc"):
    try:
        if p.isdigit() and open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()[0] == "Z":
            dead += 1
    except OSError:
        pass
if made < 600 or dead > 5:
    esc(f"{made} orphans made, {dead} dead ones kept")
done()
