# out-report-odd  [output]
# Tries: report an exception with raw bytes, control sequences, wrong types and a line number
# out of range
# Must hold afterwards: the answer is valid JSON; on a terminal nothing of it acts
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

def odd(path):
    with open(path, "wb") as f:
        f.write(b'{"type": "\\u001b]0;owned\\u0007", "message": "\\u001b[2J \xff\xfe", "line": 99999999999999999999, "traceback": [1, {"a": null}]}')
for path in reports():
    put(path, odd)

print("FINISHED", flush=True)
os._exit(1)
