# mem-three-places  [memory]
# Tries: fill the work directory, /tmp and /dev/shm together: each may be below its limit, the
# sum not
# Must hold afterwards: they share one limit of 64 MB; after removing the files there is room
# again
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
total, left, chunk = 0, [], b"z" * (1 << 20)
for d in (".", "/tmp", "/dev/shm", "/var/tmp", "/run", os.environ.get("HOME", ".")):
    path = os.path.join(d, "fill%d" % len(left))
    try:
        with open(path, "wb", buffering=0) as f:
            left.append(path)
            while total < (500 << 20):
                total += f.write(chunk)
    except OSError as e:
        print(d, e.strerror)
print(total >> 20, "MB")
if total > (80 << 20):
    esc("%d MB under a limit of 64" % (total >> 20))
for path in left:
    os.unlink(path)
with open("again", "wb") as f:
    f.write(chunk * 8)
done()
