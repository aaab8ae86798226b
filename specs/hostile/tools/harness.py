"""Calls saggar's command line and watches the host meanwhile."""
import json, os, shutil, signal, socket, subprocess, sys, tempfile, threading, time
from dataclasses import dataclass, field
from pathlib import Path

import handover, leftovers

HERE = Path(__file__).resolve().parent
STATE = Path("/var/tmp/hostile-canary-state")


@dataclass
class Answer:
    """What one call of the command line gave."""
    code: int | None
    out: bytes
    err: bytes
    wall: float
    seen: dict = field(default_factory=dict)

    def text(self):
        return self.out.decode("utf-8", "replace") + self.err.decode("utf-8", "replace")


class Harness:
    def __init__(self, a):
        self.a, self.corpus = a, Path(a.corpus)
        tools = self.corpus / "tools"
        if not tools.exists():
            tools = HERE
        self.setup_tool, self.tasks_file = tools / "host_setup.py", tools / "tasks.json"
        self.tmp = Path(tempfile.mkdtemp(prefix="hostile-", dir="/var/tmp"))
        os.chmod(self.tmp, 0o755)
        self.binary = self.tmp / "saggar"
        shutil.copy2(a.saggar, self.binary)
        self.binary.chmod(0o755)
        # home and private are saggar's, work is ours: programs, results, and where we stand
        self.home, self.private, self.work = self.tmp / "home", self.tmp / "tmp", self.tmp / "work"
        self.prefix, self.handed, self.owner = [], None, os.geteuid()
        self.warm_seen, self.beside, self.notes, self.keepers = 0, None, [], set()
        self.neighbours = []  # sessions that stay while another is looked at
        for folder in (self.home, self.private, self.work):
            folder.mkdir()
        if a.as_user:
            self.owner = leftovers.USER
            self.prefix = ["setpriv", f"--reuid={self.owner}", f"--regid={self.owner}", "--clear-groups"]
            for folder in (self.home, self.private, self.work):
                os.chown(folder, self.owner, self.owner)
        if a.cgroup_handed_over:
            self.handed = handover.Handover(self.owner)
            self.prefix = self.handed.prefix + self.prefix
        self.standing = None if a.server else handover.Standing()
        leftovers.adopt_orphans()
        if not leftovers.own_mount_table():
            self.notes.append("not root: mounts of others may be taken for ours")

    def host(self, word):
        r = subprocess.run([sys.executable, str(self.setup_tool), word], capture_output=True, text=True)
        return r.stdout

    def host_check(self):
        try:
            return json.loads(self.host("check"))
        except ValueError:
            return {"ok": False, "why": "host check failed"}

    def env(self):
        e = dict(os.environ, HOSTILE_SECRET_TOKEN=(STATE / "token").read_text().strip(), HOME=str(self.home))
        if not self.a.server:
            e.update(SAGGAR_HOME=str(self.home / "state"), TMPDIR=str(self.private))
        if self.a.as_user:
            e = {k: v for k, v in e.items() if not k.startswith("XDG_")}
        if self.handed:
            e["SAGGAR_CGROUP"] = self.handed.path
        return e

    def command(self, args):
        # A session has them from its creation.
        options = self.a.option if args[0] != "session" or args[1] == "create" else []
        at = args.index("--") if "--" in args else len(args)
        args = args[:at] + options + args[at:]
        return self.prefix + [str(self.binary), *args]

    def start(self, args, **streams):
        # settings are never read from where we stand: this one would be an error
        (self.work / "saggar.toml").write_text("network = [not even toml\n")
        return subprocess.Popen(self.command(args), env=self.env(), cwd=str(self.work), start_new_session=True, **streams)

    def call(self, args, wait, m=None):
        """Runs one command to its end and watches the host meanwhile, as the row `m` asks."""
        m = m or {}
        close, stdin = open_stdin(m)
        t = time.monotonic()
        p = self.start(args, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        watcher = Watcher(self, p.pid, m)
        watcher.start()
        try:
            out, err = p.communicate(input=m["stdin"].encode() if "stdin" in m else None, timeout=wait + 30)
            code = p.returncode
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
            code, out, err = None, b"", b"the command itself did not end"
        wall = time.monotonic() - t
        watcher.stop()
        for fd in close:
            os.close(fd)
        return Answer(code, out, err, wall, watcher.seen)

    def secrets(self):
        return [(STATE / n).read_text().strip() for n in ("secret", "token") if (STATE / n).exists()]

    def run_args(self, m, outdir, wall_s=None):
        lim = m["limits"]
        path = self.corpus / m["file"]
        src = self.work / path.name
        shutil.copyfile(path, src)
        args = ["run", str(src), "--language", m["language"], "--json", "--timeout", f"{int((wall_s or lim['wall_s']) * self.a.slow * 1000)}ms", "--memory", f"{lim['memory_mb']}M",
                "--pids", str(lim["pids"]), "--disk", f"{lim['disk_mb']}M", "--inodes", str(lim["inodes"]), "--output-limit", f"{max(1, lim['output_bytes'] // 1024)}K"]
        for f in m.get("files", []):
            up = self.work / ("upload-" + f["path"].replace("/", "_"))
            up.write_text(f["content"])
            args += ["--file", f"{up}:{f['path']}"]
        args += m.get("options", [])
        if outdir:
            args += ["--out", str(outdir)]
        if m.get("args"):
            args += ["--", *m["args"]]
        return args

    def new_outdir(self, name):
        outdir = self.work / f"out-{name}"
        outdir.mkdir()
        if self.a.as_user:
            os.chown(outdir, self.owner, self.owner)
        return outdir

    def tidy(self):
        """Removes what we ourselves put into the work folder; by a program that stands any depth."""
        subprocess.run(["find", str(self.work), "-mindepth", "1", "-delete"], stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", *(str(p) for p in self.work.iterdir())], stderr=subprocess.DEVNULL)

    def survivors(self):
        """Processes of finished calls that live on: pid -> name. The decoy and a run beside are known; the dead are reaped."""
        known = {int((STATE / "pid").read_text())}
        if self.beside:
            known.add(self.beside.pid)
        return leftovers.descendants(known, reap=True)


def open_stdin(m):
    """(descriptors to close afterwards, what Popen takes)."""
    source = m.get("stdin_from")
    if "stdin" in m:
        return [], subprocess.PIPE
    if source == "held":  # somebody has it open and never writes
        r, w = os.pipe()
        return [r, w], r
    if source:
        fd = os.open("/dev/zero" if source == "endless" else source, os.O_RDONLY)
        return [fd], fd
    return [], subprocess.DEVNULL


class Watcher(threading.Thread):
    """Looks at the host while a program runs: ports, System V objects, the client's memory; sends the row's signal."""

    def __init__(self, h, client, m):
        super().__init__(daemon=True)
        self.h, self.client, self.m, self.done = h, client, m, threading.Event()
        self.seen = {"connects": 0, "connected": False, "ipc": False, "memory_kb": 0, "killed": None}

    def run(self):
        e, kill, begun = self.m.get("expect", {}), self.m.get("kill"), time.monotonic()
        while not self.done.wait(0.05):
            if "host_connect_must_fail" in e:
                self.try_connect(e["host_connect_must_fail"])
            if "host_no_sysv_ipc_key" in e:
                self.seen["ipc"] |= has_sysv_key(e["host_no_sysv_ipc_key"])
            self.measure()
            self.h.keepers.update(pid for pid, name in self.below().items() if name.startswith("saggar"))
            if kill and self.seen["killed"] is None and time.monotonic() - begun >= kill["after_s"]:
                # Not there yet on a slow machine: the next look tries again.
                self.seen["killed"] = self.send(kill)

    def stop(self):
        self.done.set()
        self.join()
        self.seen["killed"] = self.seen["killed"] or "nobody"

    def try_connect(self, port):
        self.seen["connects"] += 1
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            self.seen["connected"] |= answers(port, family, address)

    def measure(self):
        try:
            for line in open(f"/proc/{self.client}/status"):
                if line.startswith("VmHWM"):
                    self.seen["memory_kb"] = max(self.seen["memory_kb"], int(line.split()[1]))
        except OSError:
            pass

    def send(self, kill):
        target = {"client": lambda: self.client, "keeper": self.keeper, "init": self.init}[kill["who"]]()
        if target is None:
            return None
        os.kill(target, getattr(signal, kill.get("signal", "SIGKILL")))
        return kill["who"]

    def below(self):
        return leftovers.descendants({int((STATE / "pid").read_text())})

    def keeper(self):
        return next((pid for pid, name in self.below().items() if name.startswith("saggar") and pid != self.client and len(ids_of(pid)) == 1), None)

    def init(self):
        return next((pid for pid in self.below() if len(ids_of(pid)) > 1 and ids_of(pid)[-1] == "1"), None)


def answers(port, family=socket.AF_INET, address="127.0.0.1"):
    """Whether somebody else listens there. The kernel may call from that very port, and who calls himself is answered:
    once in 14,000 times, for it gives out every second port between 32768 and 60999."""
    with socket.socket(family) as s:
        s.settimeout(1)
        try:
            s.connect((address, port))
            return s.getsockname() != s.getpeername()
        except OSError:
            return False


def ids_of(pid):
    """A process's id in our pid namespace and in each one below."""
    try:
        return next(line.split()[1:] for line in open(f"/proc/{pid}/status") if line.startswith("NSpid"))
    except (OSError, StopIteration):
        return []


def has_sysv_key(key):
    return any(k == key & 0xFFFFFFFF for _, k, _ in leftovers.sysv_objects())


def foreign_processes():
    """How many processes are in another pid namespace than ours."""
    own, found = os.readlink("/proc/self/ns/pid"), 0
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                found += os.readlink(f"/proc/{d}/ns/pid") != own
            except OSError:
                pass
    return found
