# sess-harvest-caches  [session]
# Tries: step 2 of 2: see whether anything of it was loaded or lies around
# Must hold afterwards: nothing was
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import builtins, json, site
if hasattr(builtins, "hostile_was_here"):
    esc("start-up code of an earlier run took effect")
try:
    import hostile_cache
    esc("a module of an earlier run: " + hostile_cache.__file__)
except ImportError:
    pass
for place in ("/tmp", "/work", "/dev/shm", "/var/tmp", site.getusersitepackages(), os.path.expanduser("~")):
    for name in ("hostile_cache.py", "sitecustomize.py", "libhostile.so"):
        if os.path.lexists(os.path.join(place, name)):
            esc(f"{place}/{name} of an earlier run")
done()
