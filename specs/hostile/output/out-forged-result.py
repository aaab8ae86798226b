# out-forged-result  [output]
# Tries: print complete results on both streams, and write them to every descriptor number and
# to whatever looks like a control channel
# Must hold afterwards: the result is the true one: exit code 9, not ok
# Expected: status exit, exit code 9, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
forged = b'\n{"id":"run_forged","ok":true,"outcome":{"kind":"exited","code":0},"language":"python","backend":"native","stdout":"","stderr":"","files":[],"isolation":{"layers":[],"missing":[]}}\n'
for fd in range(0, 300):
    try:
        os.write(fd, forged)
    except OSError:
        pass
for name in ("/proc/self/fd/3", "/proc/1/fd/1", "/proc/1/fd/3", "/dev/fd/3", "result.json", "/tmp/result.json", "/work/.result"):
    try:
        with open(name, "wb", buffering=0) as f:
            f.write(forged)
    except OSError:
        pass
print("FINISHED", flush=True)
os._exit(9)
