# out-many-names  [output]
# Tries: one file of 20 MB with 1500 names, which a careless collector copies 1500 times (30
# GB)
# Must hold afterwards: no more comes back than the disk limit allows, in time
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 20 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
open("plain.txt", "w").write("plain")
with open("big", "wb") as f:
    f.write(b"b" * (20 << 20))
for i in range(1500):
    os.link("big", "big%d" % i)
print("FINISHED")
