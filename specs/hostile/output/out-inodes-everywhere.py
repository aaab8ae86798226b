# out-inodes-everywhere  [output]
# Tries: make small files in the work directory, /tmp and /dev/shm until each refuses, under a
# limit of 1000
# Must hold afterwards: they share one limit, and removing files gives room again
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
made = []
for d in (".", "/tmp", "/dev/shm"):
    try:
        for i in range(5000):
            path = f"{d}/i{i}"
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            made.append(path)
    except OSError as e:
        print(d, e.strerror)
print(len(made), "files")
if len(made) > 1100:
    esc(f"{len(made)} files under a limit of 1000")
for path in made:
    os.unlink(path)
open("again", "w").close()
done()
