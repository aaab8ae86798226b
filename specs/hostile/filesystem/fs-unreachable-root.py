# fs-unreachable-root  [filesystem]
# Tries: look for a way up: work directory, root, .. of every directory it has, links of
# /proc/self, open directories of other processes
# Must hold afterwards: every way up ends at the sandbox's own root, which lists no folder of
# the host's that was not given
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
root = os.stat("/")
if os.getcwd().startswith("(unreachable)"):
    esc("the work directory lies outside the root")
for start in (".", "/tmp", "/usr", "/dev", "/proc/self", "/proc/self/root", "/proc/self/cwd"):
    try:
        up = os.stat(os.path.join(start, "../" * 50))
        if (up.st_dev, up.st_ino) != (root.st_dev, root.st_ino):
            esc("another root above " + start)
    except OSError:
        pass
if os.readlink("/proc/self/root") != "/":
    esc("root is " + os.readlink("/proc/self/root"))
for name in ("/boot", "/media", "/mnt", "/srv", "/var/lib/dpkg", "/var/log", "/run/systemd", "/sys/kernel", "/root/.ssh", "/var/tmp/hostile-canary", "/oldroot", "/.oldroot", "/put_old"):
    try:
        if os.listdir(name):
            esc("sees " + name)
    except OSError:
        pass
for row in open("/proc/self/mountinfo"):
    if "hostile-" in row or "//deleted" in row:
        esc("the mount table shows " + row.strip())
done()
