# proc-init-limits  [process]
# Tries: lower the limits, priority and processor set of process 1, which may run as the same
# user, so that it dies or starves and the failure looks like the sandbox's own
# Must hold afterwards: its limits cannot be changed
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import resource, time
if os.getpid() == 1:
    done()
    sys.exit()
for name in ("RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_STACK"):
    kind = getattr(resource, name)
    try:
        now = resource.prlimit(1, kind)
        print("note: sees", name, "of process 1:", now)
        resource.prlimit(1, kind, now)
        esc("may set " + name + " of process 1")
    except OSError:
        pass
try:
    os.setpriority(os.PRIO_PROCESS, 1, os.getpriority(os.PRIO_PROCESS, 1))
    print("note: may set the priority of process 1")
except OSError:
    pass
done()
