# fs-interpreter-prefix  [filesystem]
# Tries: drop files beside the interpreter and its packages: start-up hooks, compiled caches,
# site packages, the compiler's and node's folders
# Must hold afterwards: nothing there can be made or opened for writing
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import site, sysconfig
places = {sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.__file__), os.path.dirname(os.path.realpath(sys.executable)), os.path.dirname(sys.executable)}
places |= set(site.getsitepackages()) | {site.getusersitepackages()} | set(sysconfig.get_paths().values()) | {os.path.dirname(os.__file__) + "/__pycache__"}
places |= {"/usr/lib/node_modules", "/usr/local/lib", "/usr/lib/gcc", "/usr/include", "/usr/lib/x86_64-linux-gnu", "/usr/bin", "/etc", "/etc/ld.so.conf.d", "/usr/local/bin"}
inside = ("/work", "/tmp", "/dev/shm", os.environ.get("HOME", "/work"))
for p in sorted(places):
    if p.startswith(inside):
        continue
    for name in ("hostile_dropped", "sitecustomize.py", "hostile_dropped.pth"):
        try:
            os.close(os.open(os.path.join(p, name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            os.unlink(os.path.join(p, name))
            esc(f"made {name} in {p}")
        except OSError:
            pass
for path in (os.__file__, sys.executable, os.path.realpath(sys.executable), "/etc/ld.so.preload", "/etc/ld.so.cache", "/etc/passwd"):
    for flags in (os.O_WRONLY, os.O_RDWR | os.O_APPEND):
        try:
            os.close(os.open(path, flags))
            esc(f"{path} opened for writing")
        except OSError:
            pass
done()
