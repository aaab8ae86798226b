# ok-tempfile  [benign]
# Tries: nothing hostile: temporary files and directories, locks, maps, archives, copies, links
# and times in the work directory and /tmp
# Must hold afterwards: works
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import fcntl, mmap, os, shutil, tarfile, tempfile, zipfile
with tempfile.TemporaryDirectory() as d:
    p = os.path.join(d, "a")
    with open(p, "wb") as f:
        f.write(b"0" * 8192)
    with open(p, "r+b") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        fcntl.lockf(f, fcntl.LOCK_EX)
        with mmap.mmap(f.fileno(), 0) as m:
            m[0:3] = b"abc"
    assert open(p, "rb").read(3) == b"abc"
    os.symlink("a", os.path.join(d, "link"))
    os.link(p, os.path.join(d, "hard"))
    os.utime(p, (1e9, 1e9 + 1))
    os.chmod(p, 0o600)
    shutil.copytree(d, "copy", symlinks=True)
    os.mkfifo(os.path.join(d, "fifo"))
with tarfile.open("c.tar.gz", "w:gz") as t:
    t.add("copy")
with zipfile.ZipFile("c.zip", "w") as z:
    z.write("copy/a")
os.rename("copy", "moved")
shutil.move("moved", "/tmp/moved")
assert sorted(os.listdir("/tmp/moved")) == ["a", "hard", "link"]
shutil.rmtree("/tmp/moved")
with tempfile.SpooledTemporaryFile() as s, tempfile.NamedTemporaryFile(dir=".") as n:
    s.write(b"x")
    n.write(b"y")
os.sync()
print("BENIGN-OK")
