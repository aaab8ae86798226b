# proc-init-peek  [process]
# Tries: read and reopen everything that /proc shows of process 1: environment, memory, maps,
# descriptors, root, directory, program, auxiliary vector, stack, map_files
# Must hold afterwards: process 1 gives nothing away but its name and state, and these hold no
# path or secret of the host
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
if os.getpid() == 1:
    done()
    sys.exit()
def read(path):
    with open(path, "rb") as f:
        return f.read(4096)
for name in ("environ", "maps", "smaps", "auxv", "stack", "syscall", "io", "mem", "pagemap", "patch_state"):
    try:
        data = read("/proc/1/" + name)
        if data or name in ("mem", "pagemap"):
            esc(f"read /proc/1/{name}: {len(data)} bytes")
    except OSError:
        pass
for name in ("root", "cwd", "exe"):
    try:
        esc(f"/proc/1/{name} is {os.readlink('/proc/1/' + name)}")
    except OSError:
        pass
for name in ("fd", "fdinfo", "map_files", "root/", "cwd/"):
    try:
        esc(f"listed /proc/1/{name}: {len(os.listdir('/proc/1/' + name))} entries")
    except OSError:
        pass
for n in range(64):
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_PATH):
        try:
            os.close(os.open(f"/proc/1/fd/{n}", flags | os.O_NONBLOCK))
            esc(f"opened descriptor {n} of process 1")
        except OSError:
            pass
for name in ("exe", "mem", "oom_score_adj", "comm", "clear_refs", "coredump_filter", "timerslack_ns", "sched", "autogroup", "uid_map", "setgroups"):
    try:
        os.close(os.open("/proc/1/" + name, os.O_WRONLY))
        esc(f"/proc/1/{name} opened for writing")
    except OSError:
        pass
seen = b""
for name in ("cmdline", "status", "comm", "stat", "cgroup", "mountinfo"):
    try:
        seen += read("/proc/1/" + name)
    except OSError:
        pass
for word in (b"CANARY", b"HOSTILE_SECRET", b"hostile-canary", b"/var/tmp/hostile"):
    if word in seen:
        esc("process 1 shows " + word.decode())
done()
