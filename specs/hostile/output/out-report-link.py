# out-report-link  [output]
# Tries: replace the file by which a driver reports an exception by links to files of the host
# and of the sandbox, whose text would appear in the result
# Must hold afterwards: nothing of them is in the answer
# Expected: status exit, exit code 1, survivors 0, wall <= 6 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
def reports():
    """Files that a driver of the sandbox might leave for its supervisor: named on the command line, writable, not ours."""
    words = open("/proc/self/cmdline", "rb").read().decode("utf-8", "replace").split("\0")
    found = [w for w in words if w.startswith(("/tmp/", "/work/", "/dev/shm/")) and not w.endswith((".py", ".js"))]
    return found + ["/tmp/.saggar-exception.json", "/work/.saggar-exception.json"]
def put(path, make):
    try:
        if os.path.lexists(path):
            os.unlink(path)
        make(path)
        print("put", path)
    except OSError as e:
        print(path, e.strerror)

for path, target in zip(reports() * 2, ["/var/tmp/hostile-canary/secret.txt", "/proc/self/environ", "/etc/shadow"] * 4):
    put(path, lambda p: os.symlink(target, p))

print("FINISHED", flush=True)
os._exit(1)
