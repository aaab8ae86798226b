# sess-plant-keyring  [session]
# Tries: step 1 of 2: leave a key in the keyrings of its user and session, which no namespace
# but the user's separates
# Must hold afterwards: the next run (sess-harvest-keyring) finds none
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

for ring in (-2, -3, -4, -5):  # process, session, user, user session
    key = libc.syscall(248, b"user", b"hostile-key", b"PLANTED-KEY", 11, ring)
    if key > 0:
        libc.syscall(250, 15, key, 60)  # expires after a minute
print("PLANTED")
