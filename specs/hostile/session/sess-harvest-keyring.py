# sess-harvest-keyring  [session]
# Tries: step 2 of 2: look for the key of an earlier run
# Must hold afterwards: none is found
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

for ring in (-2, -3, -4, -5):
    key = libc.syscall(250, 10, ring, b"user", b"hostile-key", 0)
    if key > 0:
        esc(f"key of an earlier run in ring {ring}")
if libc.syscall(249, b"user", b"hostile-key", None, 0) > 0:
    esc("key of an earlier run by request")
try:
    if "hostile-key" in open("/proc/keys").read():
        esc("/proc/keys shows it")
except OSError:
    pass
done()
