# mem-pipes  [memory]
# Tries: fill pipes that were made as large as allowed, up to 900 MB, instead of using memory
# of its own
# Must hold afterwards: stopped before twice the memory limit
# Expected: status killed:memory|exit|signal, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import fcntl
total, keep, chunk = 0, [], b"p" * 65536
try:
    for _ in range(2000):
        r, w = os.pipe()
        keep += [r, w]
        try:
            fcntl.fcntl(w, 1031, 1 << 20)
        except OSError:
            pass
        os.set_blocking(w, False)
        try:
            while total < (900 << 20):
                total += os.write(w, chunk)
        except BlockingIOError:
            pass
        if total >= (900 << 20):
            break
except OSError as e:
    print("stopped:", e.strerror)
print(total >> 20, "MB")
if total > (512 << 20):
    esc("%d MB in pipes" % (total >> 20))
done()
