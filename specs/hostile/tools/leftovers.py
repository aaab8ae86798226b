"""What a run must leave as it found it: mounts, cgroups, files, System V objects, processes.

Other work goes on beside the tests, so a difference counts only where it can be told to be ours:
a process by descent (the harness adopts orphans), a file or cgroup by its name, its owner or its place.
Mounts are compared whole, but for those that container engines and login sessions make.
"""
import ctypes, fnmatch, os, re, time
from pathlib import Path

USER = 64123  # who runs saggar with --as-user
RUN_UIDS = range(0x7000_0000, 0x8000_0000)  # who a run is on the host when saggar is started by root
PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/run/netns", "/run/lock", "/run/user")
FOREIGN_MOUNTS = ("/var/lib/docker", "/run/docker", "/run/containerd", "/var/lib/containers", "/run/user", "/run/credentials", "/proc/sys/fs/binfmt_misc")
PERMANENT = ("api-key", "*.db", "*.db-*", "*.lock", "lock", "*.sock", "*.log", "*.toml", "*.pid")
PR_SET_CHILD_SUBREAPER = 36


def ours(uid):
    return uid == USER or uid in RUN_UIDS


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


def descendants(apart_from=()):
    """Living processes that descend from this one: pid -> name. Adopted zombies are reaped on the way."""
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
                found[pid] = name
            elif parent == os.getpid():
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    pass
    return found


def mount_table():
    """(mount point, type, source) of every mount, apart from those of container engines and logins."""
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


def own_cgroups():
    """Our own directory in each hierarchy, where that is not the root of it."""
    paths = dict(line.rstrip("\n").split(":", 2)[1:] for line in open("/proc/self/cgroup"))
    found = []
    for point, kind, controllers in cgroup_mounts():
        for names, path in paths.items():
            if path != "/" and ((kind == "cgroup2" and not names) or (names and set(names.split(",")) <= controllers)):
                found.append(point + path)
    return found


def of_another(name):
    """Whether a group named after its keeper (saggar-PID-START-…) belongs to a living one that we did not start."""
    keeper = re.search(r"saggar-(\d+)-\d+-", name)
    return bool(keeper) and os.path.exists(f"/proc/{keeper[1]}") and int(keeper[1]) not in descendants()


def cgroups():
    """Directories below every cgroup hierarchy that are recognisably saggar's."""
    inside, found = tuple(p + "/" for p in own_cgroups()), set()
    for point, _, _ in cgroup_mounts():
        for d, _, _ in os.walk(point):
            name = d[len(point):]
            try:
                if "saggar" in name or "hostile-handed" in name or d.startswith(inside) or ours(os.stat(d).st_uid):
                    found.add(d)
            except OSError:
                pass
    return found


def shared_places():
    """Entries of the places that everybody uses which carry our name or owner."""
    found, folders = set(), [*PLACES, *(str(p) for p in Path("/run/user").glob("*"))]
    for folder in folders:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            try:
                if "saggar" in entry.name or entry.name.startswith("run_") or ours(entry.stat(follow_symlinks=False).st_uid):
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
    with a `server` the runs' processes are not our descendants."""

    def __init__(self, private, apart_from, server):
        self.private, self.apart_from, self.server = private, tuple(str(p) for p in apart_from), server
        self.before = self.look()

    def look(self):
        files = {p for p in shared_places() if not p.startswith(self.apart_from)}
        groups = {d for d in cgroups() if self.server or not of_another(d)}
        for folder in self.private:
            files |= tree(folder)
        return {"mount": mount_table(), "cgroup": groups, "file": files, "ipc": {o for o in sysv_objects() if ours(o[2])}}

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
            gone = sorted(self.before["mount"] - now["mount"])
            if gone:
                bad.append(f"mounts of the host are gone: {gone[:3]}")
            if not bad or time.monotonic() > deadline:
                return bad
            time.sleep(0.05)

    def growth(self):
        """How many more of each kind there are now; for a server, which may keep a few idle workers."""
        now = self.look()
        return {kind: len(now[kind] - self.before[kind]) for kind in now}
