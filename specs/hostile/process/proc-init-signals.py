# proc-init-signals  [process]
# Tries: send every signal to process 1 and to its parent, by kill, tgkill, queued and by
# descriptor, then see whether the sandbox still works
# Must hold afterwards: process 1 takes no notice: this program lives on and orphans are still
# reaped
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
for sig in range(1, 65):
    for target in {1, os.getppid()}:
        if target <= 0 or target == os.getpid():
            continue
        try:
            os.kill(target, sig)
        except OSError:
            pass
        libc.syscall(234, target, target, sig)  # tgkill
        info = (ctypes.c_int * 32)(sig, 0, -1)
        libc.syscall(129, target, sig, info)  # rt_sigqueueinfo
        fd = libc.syscall(434, target, 0)  # pidfd_open
        if fd >= 0:
            libc.syscall(424, fd, sig, None, 0)  # pidfd_send_signal
            os.close(fd)
time.sleep(0.5)
r, w = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(0.1)
        os.write(w, b"%d" % os.getpid())
        os._exit(0)
    os._exit(0)
os.wait()
orphan = int(os.read(r, 20))
deadline = time.time() + 3
while os.path.exists(f"/proc/{orphan}") and time.time() < deadline:
    time.sleep(0.05)
if os.path.exists(f"/proc/{orphan}"):
    esc("process 1 no longer reaps")
done()
