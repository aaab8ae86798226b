# proc-kill-everybody  [process]
# Tries: kill(-1): every process that it may signal, from a new session, with children and
# orphans around
# Must hold afterwards: only its own processes die; the run is reported with this program's own
# exit code
# Expected: status exit, exit code 6, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import signal, time
for _ in range(5):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
        signal.pause()
time.sleep(0.3)
try:
    os.kill(-1, signal.SIGKILL)
except OSError as e:
    print("kill(-1):", e.strerror)
time.sleep(0.3)
left = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid(), os.getppid())]
print("left", len(left))
done()
sys.stdout.flush()
os._exit(6)
