# out-path-flood  [output]
# Tries: sixteen thousand empty files below a path of nearly 4000 bytes: their list alone is 60
# MB
# Must hold afterwards: the answer stays small or is cut, the client does not swell, and the
# result comes in time
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
for _ in range(15):
    os.mkdir("p" * 250)
    os.chdir("p" * 250)
made = 0
try:
    for i in range(16000):
        os.close(os.open("f%d" % i, os.O_CREAT | os.O_WRONLY))
        made += 1
except OSError as e:
    print(e.strerror)
print(made, "FINISHED")
