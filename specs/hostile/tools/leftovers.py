"""What a run must leave as it found it: mounts, cgroups, files, System V objects, processes.

Other work goes on beside the tests, so a difference counts only where it can be told to be ours:
a process by descent (the harness adopts orphans), a file or cgroup by its name, its owner or its place.
Mounts are compared whole, in a mount namespace of the harness's own where it may have one.
"""
import ctypes, fnmatch, os, re, time
from pathlib import Path

USER = 64123  # who runs saggar with --as-user
RUN_UIDS = range(0x7000_0000, 0x8000_0000)  # who a run is on the host when saggar is started by root
USER_UIDS = range(USER, USER + 1)
PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/run/netns", "/run/lock", "/run/user")
FOREIGN_MOUNTS = ("/var/lib/docker", "/run/docker", "/run/containerd", "/var/lib/containers", "/run/user", "/run/credentials", "/proc/sys/fs/binfmt_misc")
PERMANENT = ("api-key", "*.db", "*.db-*", "*.lock", "lock", "*.sock", "*.log", "*.toml", "*.pid")
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_SHARED = 0x20000, 0x4000, 1 << 18, 1 << 20


def adopt_orphans():
    """From now on a process that loses its parent becomes our child instead of the host's init's."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("PR_SET_CHILD_SUBREAPER failed")


def processes():
    """pid -> (parent, name, state) of every process, seen from here."""
    table = {}
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                head, tail = Path(f"/proc/{d}/stat").read_text(errors="replace").rsplit(")", 1)
            except OSError:
                continue
            state, parent = tail.split()[:2]
            table[int(d)] = (int(parent), head.split("(", 1)[1], state)
    return table


def own_mount_table():
    """A copy of the host's mount table for us and our children: others' mounts stay out, and a sandbox that does not
    cut its own off shows in ours, as it would on a host whose mounts are shared. Needs root; False without."""
    libc = ctypes.CDLL(None)
    return libc.unshare(CLONE_NEWNS) == 0 and all(libc.mount(None, b"/", None, MS_REC | how, None) == 0 for how in (MS_PRIVATE, MS_SHARED))


def called(pid, short):
    """What a process calls itself: the first word of its command line, else its short name."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return short
    return os.path.basename(words[0]).decode("utf-8", "replace") or short


def descendants(apart_from=(), reap=False):
    """Living processes that descend from this one: pid -> name. Reaps our dead children on request: not while a Popen waits for one."""
    table, kids = processes(), {}
    for pid, (parent, _, _) in table.items():
        kids.setdefault(parent, []).append(pid)
    found, queue = {}, [os.getpid()]
    while queue:
        for pid in kids.get(queue.pop(), []):
            parent, name, state = table[pid]
            if pid in apart_from:
                continue
            queue.append(pid)
            if state not in "ZX":
                found[pid] = called(pid, name)
            elif reap and parent == os.getpid():
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    pass
    return found


def mount_table():
    """(mount point, type, source) of every mount, apart from those that container engines and logins make at any time."""
    rows = set()
    for line in open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape"):
        left, right = line.split(" - ", 1)
        point, fields = left.split()[4], right.split()
        if not point.startswith(FOREIGN_MOUNTS):
            rows.add((point, fields[0], fields[1]))
    return rows


def cgroup_mounts():
    """(mount point, kind, controllers) of each hierarchy."""
    rows = []
    for line in open("/proc/self/mountinfo"):
        left, right = line.split(" - ", 1)
        kind, _, options = right.split()[:3]
        if kind in ("cgroup", "cgroup2"):
            rows.append((left.split()[4], kind, set(options.split(","))))
    return rows


def own_folders():
    """(our own directory, controllers) in each hierarchy."""
    paths = dict(line.rstrip("\n").split(":", 2)[1:] for line in open("/proc/self/cgroup"))
    found = []
    for point, kind, controllers in cgroup_mounts():
        for names, path in paths.items():
            if (kind == "cgroup2" and not names) or (names and set(names.split(",")) <= controllers):
                found.append((point + path.rstrip("/"), controllers))
    return found


def cgroups(uids, keepers):
    """Directories below every cgroup hierarchy that are recognisably ours: below our own place, owned by the runs, or
    named after saggar; a name that tells a keeper's process (saggar-PID-START-…) only if that keeper was ours."""
    roots = {point for point, _, _ in cgroup_mounts()}
    inside, found = tuple(p + "/" for p, _ in own_folders() if p not in roots), set()
    for point in roots:
        for d, _, _ in os.walk(point):
            name = d[len(point):]
            keeper = re.search(r"saggar-(\d+)-\d+-", name)
            try:
                named = "saggar" in name and (keeper is None or keepers is None or int(keeper[1]) in keepers)
                if named or d.startswith(inside) or os.stat(d).st_uid in uids:
                    found.add(d)
            except OSError:
                pass
    return found


def shared_places(uids):
    """Entries of the places that everybody uses which carry our name or owner."""
    found, folders = set(), [*PLACES, *(str(p) for p in Path("/run/user").glob("*"))]
    for folder in folders:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            try:
                if "saggar" in entry.name or entry.name.startswith("run_") or entry.stat(follow_symlinks=False).st_uid in uids:
                    found.add(entry.path)
            except OSError:
                pass
    return found


def tree(folder):
    """Every path below a folder that is ours alone, less the state files that are meant to stay."""
    found = set()
    for d, subs, names in os.walk(folder):
        found.update(os.path.join(d, s) for s in subs)
        found.update(os.path.join(d, n) for n in names if not any(fnmatch.fnmatch(n, p) for p in PERMANENT))
    return found


def sysv_objects():
    """(kind, key, owner) of each System V object of the host."""
    found = set()
    for kind in ("shm", "msg", "sem"):
        try:
            rows = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()
        except OSError:
            continue
        for row in rows[1:]:
            fields = dict(zip(rows[0].split(), row.split()))
            found.add((kind, int(fields["key"]) & 0xFFFFFFFF, int(fields["uid"])))
    return found


class Watch:
    """Compares the host before and after. `private` folders are ours alone; `apart_from` belongs to the harness;
    `uids` are who runs are on the host, `keepers` the helper processes that were ours (None: all are, as with a server)."""

    def __init__(self, private, apart_from, uids, keepers):
        self.private, self.apart_from, self.uids, self.keepers = private, tuple(str(p) for p in apart_from), uids, keepers
        self.before = self.look()

    def look(self):
        files = {p for p in shared_places(self.uids) if not p.startswith(self.apart_from)}
        for folder in self.private:
            files |= tree(folder)
        return {"mount": mount_table(), "cgroup": cgroups(self.uids, self.keepers), "file": files, "ipc": {o for o in sysv_objects() if o[2] in self.uids}}

    def again(self):
        self.before = self.look()

    def complaints(self, patience=2.0):
        """What is there now and was not, or the other way round for mounts; gives clean-up time to end."""
        deadline = time.monotonic() + patience
        while True:
            now, bad = self.look(), []
            for kind, seen in now.items():
                new = sorted(seen - self.before[kind])
                if new:
                    bad.append(f"{len(new)} {kind}(s) left behind: {new[:3]}")
            # Others may take down their own mounts meanwhile; those that every host has are nobody's to take down.
            system = ("/proc", "/sys", "/dev")
            gone = sorted(m for m in self.before["mount"] - now["mount"] if m[0] == "/" or m[0].startswith(system))
            if gone:
                bad.append(f"mounts of the host are gone: {gone[:3]}")
            if not bad or time.monotonic() > deadline:
                return bad
            time.sleep(0.05)

    def growth(self):
        """How many more of each kind there are now; for a server, which may keep a few idle workers."""
        now = self.look()
        return {kind: len(now[kind] - self.before[kind]) for kind in now}

    def new(self, kind):
        return sorted(self.look()[kind] - self.before[kind])
