# proc-self-files  [process]
# Tries: write to its own process files that would loosen something: user maps, out-of-memory
# score, login id, time offsets, namespaces' switches
# Must hold afterwards: all that would give something are refused, and its cgroup looks like
# the root
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
def attempt(path, data):
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(fd, data)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
if attempt("/proc/self/oom_score_adj", b"-1") or attempt("/proc/self/oom_score_adj", b"-1000"):
    if int(open("/proc/self/oom_score_adj").read()) < 0:
        esc("protected itself from the out-of-memory killer")
for name, data in (("uid_map", b"0 0 1"), ("gid_map", b"0 0 1"), ("setgroups", b"allow"), ("projid_map", b"0 0 1"), ("loginuid", b"0"), ("timens_offsets", b"monotonic 1 0"),
                   ("attr/current", b"unconfined"), ("attr/exec", b"unconfined"), ("attr/apparmor/exec", b"exec unconfined")):
    if attempt("/proc/self/" + name, data):
        esc("wrote " + name)
try:
    rows = [l.rstrip("\n").split(":", 2)[2] for l in open("/proc/self/cgroup")]
    if any(r != "/" for r in rows):
        esc(f"sees its place among the host's cgroups: {rows}")
except OSError:
    pass
for name in ("/proc/self/uid_map", "/proc/self/gid_map"):
    try:
        for row in open(name):
            if row.split()[1] == "0" and row.split()[0] == "0" and int(row.split()[2]) > 1:
                esc("the host's root is mapped: " + row.strip())
    except OSError:
        pass
done()
