# cpu-limit-shared  [cpu]
# Tries: spread the work over children that each stay far below the processor time limit of two
# seconds
# Must hold afterwards: the limit holds for the sum and is reported as such
# Expected: status killed:cpu, survivors 0, wall <= 25 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import time
while True:
    kids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            end = time.process_time() + 0.2
            while time.process_time() < end:
                pass
            os._exit(0)
        kids.append(pid)
    for pid in kids:
        os.waitpid(pid, 0)
