# priv-file-capabilities  [privilege]
# Tries: give its own files capabilities, trusted attributes or another owner, and set-id bits,
# then execute them
# Must hold afterwards: the attributes are refused, or they have no effect on the identity
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import shutil, struct, subprocess
shutil.copy("/usr/bin/id", "myid")
cap = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0)
rooted = struct.pack("<IIIIII", 0x03000001, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0, 0)
for name, value in (("security.capability", cap), ("security.capability", rooted), ("trusted.hostile", b"1"), ("trusted.overlay.opaque", b"y"), ("system.hostile", b"1")):
    try:
        os.setxattr("myid", name, value)
        esc("set " + name)
    except OSError:
        pass
before = subprocess.run(["id"], capture_output=True, text=True).stdout
for mode in (0o4755, 0o2755, 0o6755):
    try:
        os.chmod("myid", mode)
    except OSError:
        continue
    after = subprocess.run(["./myid"], capture_output=True, text=True).stdout
    if after and after != before:
        esc(f"mode {mode:o} changed {before.strip()} to {after.strip()}")
for uid in (0, 1, 65534, 1001, 64123):
    try:
        os.chown("myid", uid, -1)
        if os.stat("myid").st_uid == uid and uid != os.getuid():
            esc(f"gave a file to {uid}")
    except OSError:
        pass
for change in (lambda: os.setgroups([0]), lambda: os.setresuid(0, 0, 0), lambda: os.setresgid(0, 0, 0), lambda: os.setreuid(0, 0)):
    try:
        change()
        esc("identity changed")
    except OSError:
        pass
done()
