"""Cgroups that the harness makes: one to hand to an ordinary user, as an administrator or a service manager would, and one to stand in."""
import os, time
from pathlib import Path

from leftovers import cgroup_mounts, own_folders

CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")
DELEGATED = ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads")


def memory_is_v1():
    return any(kind == "cgroup" and "memory" in controllers for _, kind, controllers in cgroup_mounts())


def may_make_groups():
    """Whether we ourselves could make a group in the hierarchy that meters memory."""
    return any(os.access(point, os.W_OK) and not os.statvfs(point).f_flag & os.ST_RDONLY for point, kind, controllers in cgroup_mounts()
               if "memory" in controllers or (kind == "cgroup2" and not memory_is_v1()))


class Handover:
    """`path` goes to SAGGAR_CGROUP; `prefix` starts a command where it must stand."""

    def __init__(self, uid):
        self.folders, self.prefix, name = [], [], f"hostile-handed-{os.getpid()}"
        if memory_is_v1():
            self.make_v1(name, uid)
        else:
            self.make_v2(name, uid)

    def make_v1(self, name, uid):
        for wanted in CONTROLLERS:
            point = next((p for p, kind, controllers in cgroup_mounts() if kind == "cgroup" and wanted in controllers), None)
            folder = Path(point, name) if point else None
            if folder is None or folder in self.folders:
                continue
            folder.mkdir()
            self.folders.append(folder)
            for f in [folder, *folder.iterdir()]:
                os.chown(f, uid, uid)
            if wanted == "memory":
                self.path = str(folder)

    def make_v2(self, name, uid):
        point = Path(next(p for p, kind, _ in cgroup_mounts() if kind == "cgroup2"))
        for controller in ("memory", "pids", "cpu"):
            (point / "cgroup.subtree_control").write_text(f"+{controller}")
        folder = point / name
        leaf = folder / "leaf"
        leaf.mkdir(parents=True)
        self.folders, self.path = [folder], str(folder)
        for d in (folder, leaf):
            os.chown(d, uid, uid)
            for f in DELEGATED:
                os.chown(d / f, uid, uid)
        # a group with processes of its own cannot give controllers to its children
        self.prefix = ["sh", "-c", f'echo $$ > {leaf}/cgroup.procs && exec "$@"', "sh"]

    def remove(self):
        remove(self.folders)


class Standing:
    """Moves us into v1 groups of our own, so that what saggar makes below its caller's group is told from what others make.

    On v2 a group with processes can have no children, so there we stay where we are."""

    def __init__(self):
        self.folders, name, here = [], f"hostile-check-{os.getpid()}", own_folders()
        if not memory_is_v1() or os.geteuid() != 0:
            return
        for point, controllers in here:
            folder = Path(point, name)
            if controllers & set(CONTROLLERS) and os.access(point, os.W_OK):
                folder.mkdir()
                self.folders.append(folder)
                (folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for folder in self.folders:
            (folder.parent / "cgroup.procs").write_text(str(os.getpid()))
        remove(self.folders)


def remove(folders):
    for top in folders:
        for d, _, _ in os.walk(top, topdown=False):
            for _ in range(40):
                try:
                    os.rmdir(d)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.05)
