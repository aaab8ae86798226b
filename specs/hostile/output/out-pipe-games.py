# out-pipe-games  [output]
# Tries: change the pipes that it was given: smallest size, packet mode, not blocking, signals
# to process 1 on every write, read back what was written
# Must hold afterwards: output still arrives in full and nobody is disturbed
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import fcntl, signal
for fd in (1, 2):
    for command, value in ((1031, 4096), (fcntl.F_SETFL, os.O_NONBLOCK | os.O_DIRECT | os.O_ASYNC | os.O_APPEND), (fcntl.F_SETOWN, 1), (10, signal.SIGKILL), (fcntl.F_SETOWN, -1)):
        try:
            fcntl.fcntl(fd, command, value)
        except OSError:
            pass
fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT)
for i in range(200):
    os.write(1, b"%05d\n" % i)
try:
    fd = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
    os.close(fd)
except OSError:
    pass
try:
    os.ftruncate(1, 0)
    esc("truncated its output")
except OSError:
    pass
done()
