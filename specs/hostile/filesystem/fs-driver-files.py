# fs-driver-files  [filesystem]
# Tries: change whatever of the sandbox itself is visible: files on its command line, modules
# that were loaded from outside the standard library, descriptors to them, its own mounts
# Must hold afterwards: reading is fine, changing is not
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import stat
seen = set(sys.argv) | {getattr(m, "__file__", None) for m in list(sys.modules.values())}
for p in os.listdir("/proc"):
    if p.isdigit():
        try:
            seen |= set(open(f"/proc/{p}/cmdline", "rb").read().decode("utf-8", "replace").split("\0"))
        except OSError:
            pass
inside = ("/work/", "/tmp/", "/dev/shm/")
for path in sorted(s for s in seen if s and s.startswith("/")):
    if os.path.realpath(path).startswith(inside) or not os.path.isfile(path):
        continue
    try:
        os.close(os.open(path, os.O_WRONLY))
        esc(f"{path} opened for writing")
    except OSError:
        pass
    try:
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode))
        esc(f"mode of {path} set")
    except OSError:
        pass
    try:
        os.utime(path)
        esc(f"times of {path} set")
    except OSError:
        pass
for row in open("/proc/self/mountinfo"):
    point = row.split()[4]
    if point.startswith(("/work", "/tmp", "/dev/shm", "/dev/", "/proc")):
        continue
    for name in (point + "/hostile_dropped",):
        try:
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600))
            os.unlink(name)
            esc("made " + name)
        except OSError:
            pass
done()
