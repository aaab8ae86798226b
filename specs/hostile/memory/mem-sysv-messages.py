# mem-sysv-messages  [memory]
# Tries: park up to 500 MB in System V message queues
# Must hold afterwards: stopped before the memory limit plus a half
# Expected: status killed:memory|exit|signal, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
total, text = 0, b"\1" + b"\0" * 7 + b"m" * 8192
while total < (500 << 20):
    q = libc.msgget(0, 0o1600)
    if q < 0:
        break
    while libc.msgsnd(q, text, 8192, 0o4000) == 0:
        total += 8192
print(total >> 20, "MB")
if total > (384 << 20):
    esc("%d MB in message queues" % (total >> 20))
done()
