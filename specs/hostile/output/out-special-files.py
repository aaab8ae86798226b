# out-special-files  [output]
# Tries: leave pipes, sockets, links, loops, unreadable files and directories, many names for
# one file and set-id directories beside an ordinary file
# Must hold afterwards: only plain files come back, the ordinary one among them, and collecting
# never blocks
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import socket
open("plain.txt", "w").write("plain")
os.makedirs("deep/er", exist_ok=True)
open("deep/er/nested.txt", "w").write("nested")
os.mkfifo("pipe")
s = socket.socket(socket.AF_UNIX)
s.bind("socket")
for name, target in (("loop", "loop"), ("a", "b"), ("b", "a"), ("up", ".."), ("root", "/"), ("zero", "/dev/zero"), ("random", "/dev/urandom"), ("self", "/proc/self/environ"), ("dir", "deep"), ("dangling", "nowhere")):
    os.symlink(target, name)
for i in range(20):
    os.link("plain.txt", "name%d" % i)
open("closed", "w").write("closed")
os.chmod("closed", 0)
os.makedirs("locked/inner", exist_ok=True)
open("locked/inner/x", "w").write("x")
os.chmod("locked", 0)
os.makedirs("blind", exist_ok=True)
open("blind/y", "w").write("y")
os.chmod("blind", 0o311)
for name, mode in (("sticky", 0o7777), ("exec", 0o6755)):
    try:
        os.mkdir(name)
        os.chmod(name, mode)
        open(name + "/z", "w").write("z")
        os.chmod(name + "/z", mode)
    except OSError:
        pass
for name, kind in (("null", 0o020666), ("disk", 0o060666)):
    try:
        os.mknod(name, kind, os.makedev(1, 3))
        esc("made a device")
    except OSError:
        pass
print("FINISHED")
