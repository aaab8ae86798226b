# term-no-terminal  [terminal]
# Tries: find a terminal behind the standard streams or by its own session, also when the
# client stands on one, and push input with junk in the upper half of the request
# Must hold afterwards: no stream is a terminal of the host, there is no controlling terminal,
# and nothing is pushed
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for fd in (0, 1, 2):
    if os.isatty(fd):
        esc(f"stream {fd} is a terminal")
    target = os.readlink(f"/proc/self/fd/{fd}")
    if target.startswith("/dev/") and target != "/dev/null":
        esc(f"stream {fd} is {target}")
for path in ("/dev/tty", "/dev/console", "/dev/pts/0", "/dev/pts/1", "/dev/vcs", "/dev/ttyS0"):
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
        esc("opened " + path)
    except OSError:
        pass
if int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[4]) != 0:
    esc("there is a controlling terminal")
byte = ctypes.create_string_buffer(b" ")
for fd in (0, 1, 2):
    for request in (0x5412, 0x5412 | 1 << 32, 0x541C | 0xDEAD << 32, 0x540E | 1 << 40):  # TIOCSTI, TIOCLINUX, TIOCSCTTY
        if libc.syscall(16, fd, ctypes.c_ulong(request), byte) == 0:
            esc(f"ioctl {request:x} on {fd}")
done()
