# mem-attributes  [memory]
# Tries: store data in extended attributes of small files in memory, which a size limit may not
# count, up to 600 MB
# Must hold afterwards: bounded like other data
# Expected: status killed:memory|exit|signal, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
total, value = 0, b"x" * 60000
for d in (".", "/tmp", "/dev/shm"):
    try:
        for i in range(4000):
            path = f"{d}/a{i}"
            open(path, "w").close()
            for k in range(2):
                os.setxattr(path, f"user.k{k}", value)
                total += len(value)
            if total > (600 << 20):
                break
    except OSError as e:
        print(d, e.strerror)
print(total >> 20, "MB")
if total > (300 << 20):
    esc("%d MB in attributes" % (total >> 20))
done()
