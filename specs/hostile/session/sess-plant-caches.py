# sess-plant-caches  [session]
# Tries: step 1 of 2: leave compiled modules, packages and shared libraries where interpreters
# and loaders of a later run look
# Must hold afterwards: the next run (sess-harvest-caches) loads none of it
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import importlib.util, py_compile, site
places = [os.path.dirname(os.__file__) + "/__pycache__", site.getusersitepackages(), "/tmp", "/work", "/dev/shm", os.path.expanduser("~/.cache"), os.path.expanduser("~/.local/lib"), "/tmp/.ld", "/var/tmp", "/usr/local/lib/python3/dist-packages"]
for place in places + [os.path.dirname(p) for p in places]:
    for name in ("hostile_cache.py", "sitecustomize.py", "json.py", "libhostile.so"):
        try:
            os.makedirs(place, exist_ok=True)
            with open(os.path.join(place, name), "w") as f:
                f.write("import builtins\nbuiltins.hostile_was_here = True\n")
        except OSError:
            pass
print("PLANTED")
