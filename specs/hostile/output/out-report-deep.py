# out-report-deep  [output]
# Tries: report an exception as JSON that is nested two hundred thousand deep, then as one of
# 40 MB, so that the reader overflows or swells
# Must hold afterwards: the result comes and is small
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

def deep(path):
    with open(path, "w") as f:
        f.write('{"type": ' + "[" * 200000 + "]" * 200000 + "}")
def huge(path):
    with open(path, "w") as f:
        f.write('{"type": "' + "x" * (40 << 20) + '", "message": "", "line": 1, "traceback": ""}')
for path in reports()[:1]:
    put(path, huge)
for path in reports()[1:]:
    put(path, deep)

print("FINISHED", flush=True)
os._exit(1)
