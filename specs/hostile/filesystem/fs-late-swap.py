# fs-late-swap  [filesystem]
# Tries: end at once, while orphans go on swapping a directory with a link to the host's canary
# and a file with a link, at the moment when files are brought back
# Must hold afterwards: the orphans are dead before anything is collected; no canary comes
# back, and nothing but plain files
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
os.makedirs("real", exist_ok=True)
open("real/secret.txt", "w").write("harmless")
open("plain.txt", "w").write("harmless")
open("f", "w").write("harmless")
os.symlink("/var/tmp/hostile-canary", "evil")
os.symlink("/var/tmp/hostile-canary/secret.txt", "g")
def swap(a, b, c):
    while True:
        for src in (a, b):
            try:
                os.rename(src, c)
                os.rename(c, src)
            except OSError:
                pass
for names in (("real", "evil", "d"), ("f", "g", "h")):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            swap(*names)
        os._exit(0)
import time
time.sleep(0.2)
print("FINISHED", flush=True)
os._exit(0)
