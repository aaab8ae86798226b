#!/usr/bin/env python3
"""Runs the hostile corpus through saggar's command line and says what got out.

  check.py --saggar PATH                         everything, each program as its own cold run
  check.py --saggar PATH --only network          one category, or one id
  check.py --saggar PATH --as-user               as an ordinary user (needs root to become one)
  check.py --saggar PATH --as-user --cgroup-handed-over   the same, with a cgroup that root made for that user
  check.py --saggar PATH --option=--backend=docker     extra option for every call, repeatable
  check.py --saggar PATH --warm --rounds 10 --shuffle  through a running `saggar serve` whose SAGGAR_HOME is exported
  check.py --saggar PATH --slow 10               on a slow machine (emulated): wall limits times ten

Exit 0 when everything was contained, every benign program worked, no cheat scored and nothing was left on the host.
"""
import argparse, base64, fcntl, json, os, random, shutil, signal, socket, subprocess, sys, tempfile, threading, time
from dataclasses import dataclass, field
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))
import handover, leftovers, terminal

STATE = Path("/var/tmp/hostile-canary-state")
CANARY = Path("/var/tmp/hostile-canary")
LOCK = "/var/tmp/hostile-check.lock"
STATUS = {"wall": "killed:timeout", "cpu": "killed:cpu", "memory": "killed:memory", "disk": "killed:disk", "pids": "killed:pids", "output": "killed:output"}
WALLS = {"user_ns", "mount_ns", "pid_ns", "net_ns", "ipc_ns", "uts_ns", "cgroup_ns", "no_new_privs", "seccomp", "caps_dropped"}
HELLO = {"python": "print(1)", "bash": "echo 1", "node": "console.log(1)", "c": "int main(void) { return 0; }", "cpp": "int main() { return 0; }", "perl": "print 1;"}
CLIENT_MEMORY_MB = 192  # the client's own peak: it must not grow with what a program prints or leaves
IDLE_WORKERS = 8  # how many more of a thing a server may keep after a test than before


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--saggar", required=True)
    p.add_argument("--corpus", default=str(Path(__file__).parent))
    p.add_argument("--only", action="append", default=[])
    p.add_argument("--skip", action="append", default=[], help="category or id")
    p.add_argument("--profile", action="append", default=[], help="also programs that concern this profile only, such as judge")
    p.add_argument("--as-user", action="store_true")
    p.add_argument("--cgroup-handed-over", action="store_true", help="with --as-user: root makes a cgroup for that user")
    p.add_argument("--tolerate-optional", action="store_true", help="an optional program that does not work is a note, not a failure")
    p.add_argument("--warm", action="store_true")
    p.add_argument("--slow", type=float, default=1.0)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--shuffle", action="store_true")
    p.add_argument("--option", action="append", default=[])
    p.add_argument("--json", action="store_true")
    p.add_argument("-v", "--verbose", action="store_true")
    a = p.parse_args()
    if a.warm and "SAGGAR_HOME" not in os.environ:
        p.error("--warm: export the SAGGAR_HOME of the running server")
    if a.cgroup_handed_over and (not a.as_user or a.warm or os.geteuid() != 0):
        p.error("--cgroup-handed-over needs root and --as-user, and no server")
    return a


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
            tools = Path(__file__).parent / "tools"
        self.setup_tool, self.tasks_file = tools / "host_setup.py", tools / "tasks.json"
        self.tmp = Path(tempfile.mkdtemp(prefix="hostile-", dir="/var/tmp"))
        os.chmod(self.tmp, 0o755)
        self.binary = self.tmp / "saggar"
        shutil.copy2(a.saggar, self.binary)
        self.binary.chmod(0o755)
        # home and private are saggar's, work is ours: programs, results, and where we stand
        self.home, self.private, self.work = self.tmp / "home", self.tmp / "tmp", self.tmp / "work"
        self.prefix, self.handed, self.owner = [], None, 0
        self.warm_seen, self.beside, self.notes = 0, None, []
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
        if not self.a.warm:
            e.update(SAGGAR_HOME=str(self.home / "state"), TMPDIR=str(self.private))
        if self.a.as_user:
            e = {k: v for k, v in e.items() if not k.startswith("XDG_")}
        if self.handed:
            e["SAGGAR_CGROUP"] = self.handed.path
        return e

    def command(self, args):
        if "--" in args:
            at = args.index("--")
            args = args[:at] + self.a.option + args[at:]
        else:
            args = args + self.a.option
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
        os.chown(outdir, self.owner, self.owner)
        return outdir

    def tidy(self):
        """Removes what we ourselves put into the work folder; by a program that stands any depth."""
        subprocess.run(["find", str(self.work), "-mindepth", "1", "-delete"], stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", *(str(p) for p in self.work.iterdir())], stderr=subprocess.DEVNULL)

    def survivors(self):
        """Processes of finished calls that live on: pid -> name. The decoy and a run beside are known."""
        known = {int((STATE / "pid").read_text())}
        if self.beside:
            known.add(self.beside.pid)
        return leftovers.descendants(known)


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
            if kill and self.seen["killed"] is None and time.monotonic() - begun >= kill["after_s"]:
                self.seen["killed"] = self.send(kill)

    def stop(self):
        self.done.set()
        self.join()

    def try_connect(self, port):
        self.seen["connects"] += 1
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with socket.socket(family) as s:
                s.settimeout(1)
                try:
                    s.connect((address, port))
                    self.seen["connected"] = True
                except OSError:
                    pass

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
            return "nobody"
        os.kill(target, getattr(signal, kill.get("signal", "SIGKILL")))
        return kill["who"]

    def below(self):
        return leftovers.descendants({int((STATE / "pid").read_text())})

    def keeper(self):
        return next((pid for pid, name in self.below().items() if name.startswith("saggar") and pid != self.client and len(ids_of(pid)) == 1), None)

    def init(self):
        return next((pid for pid in self.below() if len(ids_of(pid)) > 1 and ids_of(pid)[-1] == "1"), None)


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


def status_of(result):
    o = result.get("outcome", {})
    kind = o.get("kind")
    if result.get("compile") and not result["compile"].get("ok", True):
        killed = result["compile"].get("outcome", {})
        return STATUS.get(killed.get("limit"), "killed:?") if killed.get("kind") == "limit_exceeded" else "compile_error"
    if kind == "exited":
        return "exit"
    if kind == "signaled":
        return "killed:seccomp" if o.get("signal") in (31, "SIGSYS") else "signal"
    if kind == "limit_exceeded":
        return STATUS.get(o.get("limit"), "killed:?")
    return str(kind)


def exit_code_of(outcome):
    """What the command line must exit with after this outcome."""
    kind = outcome.get("kind")
    if kind == "exited":
        return outcome["code"]
    if kind == "signaled":
        return 128 + outcome["signal"]
    if kind == "limit_exceeded":
        return 124 if outcome["limit"] in ("wall", "cpu") else 137
    return {"refused": 126, "cancelled": 130}.get(kind)


def strict_json(data):
    def refuse(word):
        raise ValueError(f"{word} is not JSON")
    text = data.decode("utf-8")
    if text.count("\n") > 1:
        raise ValueError("more than one line")
    return json.loads(text, parse_constant=refuse)


def judge_run(h, m):
    """Runs one row; (what is wrong, the result or None)."""
    e = m["expect"]
    if "host_connect_must_fail" in e and port_is_taken(e["host_connect_must_fail"]):
        return [f"port {e['host_connect_must_fail']} is taken on this host"], None
    if m.get("collect_artifacts") or m.get("download_after") or m.get("upload_after"):
        outdir = h.new_outdir(m["id"])
    else:
        outdir = None
    answer = h.call(h.run_args(m, outdir), e.get("max_wall_s", 20) * h.a.slow, m)
    if m.get("kill"):
        return judge_killed(h, m, answer), None
    try:
        result = strict_json(answer.out)
    except ValueError as x:
        return [f"no JSON result ({x}); exit {answer.code}; {answer.text()[-300:].strip()}"], None
    if "error" in result:
        return [f"saggar failed: {result['error']}"], result
    h.warm_seen += result.get("start") == "warm"
    bad = check_outcome(e, result, answer) + check_output(h, m, result, answer) + check_host(h, e, answer)
    bad += check_isolation(h, result)
    if outdir:
        bad += check_artifacts(h, e, outdir)
    if m.get("tty_run"):
        bad += judge_terminal(h, m)
    if m.get("upload_after"):
        bad += judge_upload(h, m)
    if m.get("download_during"):
        bad += judge_download(h, m)
    return bad, result


def check_outcome(e, result, answer):
    bad, status, outcome = [], status_of(result), result["outcome"]
    if "status_in" in e and status not in e["status_in"] and not (status == "exit" and "compile_error" in e["status_in"]):
        bad.append(f"status {status} not in {e['status_in']}: {outcome} {result['stdout'][-200:]!r} {result['stderr'][-200:]!r}")
    if status in e.get("status_not_in", []):
        bad.append(f"status {status}")
    if "exit_code" in e and outcome.get("code") != e["exit_code"]:
        bad.append(f"exit code {outcome.get('code')} not {e['exit_code']}")
    if answer.code != exit_code_of(outcome):
        bad.append(f"the command exited with {answer.code} after {outcome}")
    if result["ok"] != (outcome == {"kind": "exited", "code": 0}):
        bad.append(f"ok is {result['ok']} after {outcome}")
    hit = set(result.get("limits_hit", []))
    if e.get("memory_limit_reported") and status != "killed:memory" and "memory" not in hit:
        bad.append("the memory limit was reached and not reported")
    if not hit >= set(e.get("limits_hit", [])):
        bad.append(f"limits_hit is {sorted(hit)}, not {e['limits_hit']}")
    if result["usage"].get("cpu_ms", 0) < 1000 * e.get("min_cpu_s", 0):
        bad.append(f"only {result['usage'].get('cpu_ms')} ms of processor time are reported")
    if "exception_type" in e and (result.get("exception") or {}).get("type") != e["exception_type"]:
        bad.append(f"exception is {result.get('exception')}")
    return bad


def check_output(h, m, result, answer):
    e, bad, text, status = m["expect"], [], answer.text(), status_of(result)
    if status == "exit":
        for s in e.get("stdout_must_contain", []):
            if s not in result["stdout"]:
                bad.append(f"stdout lacks {s!r}: {result['stdout'][-200:]!r} {result['stderr'][-200:]!r}")
    for s in e.get("stdout_must_not_contain", []):
        if not s.startswith("CANARY-") and s in text:
            i = text.index(s)
            if s == "ESCAPED:" and m.get("needs_layer") in result.get("isolation", {}).get("missing", []):
                h.notes.append(f"{m['id']}: {text[i:i + 80]!r} without {m['needs_layer']}")
            else:
                bad.append(f"{text[i:i + 80]!r}")
    carried = b"".join(base64.b64decode(f.get("base64") or "") for f in result.get("files", []))
    if any(v in text or v.encode() in carried for v in h.secrets()):
        bad.append("a canary's value is in the answer")
    if e.get("output_truncated") is True and not (result.get("stdout_truncated") or result.get("stderr_truncated")):
        bad.append("output was cut but not said so")
    if "stdout_max_bytes" in e and len(result["stdout"].encode()) > e["stdout_max_bytes"] * 1.1 + 4096:
        bad.append(f"kept {len(result['stdout'])} bytes")
    return bad


def check_host(h, e, answer):
    bad = []
    if answer.wall > e.get("max_wall_s", 1e9) * h.a.slow:
        bad.append(f"took {answer.wall:.1f} s")
    for p in e.get("host_must_not_exist", []):
        if os.path.lexists(p):
            bad.append(f"{p} exists on the host")
    if answer.seen["connected"]:
        bad.append("the host could connect to a port inside")
    if "host_connect_must_fail" in e and not answer.seen["connects"]:
        bad.append("the program ended before the host could try its port")
    if "host_no_sysv_ipc_key" in e and (answer.seen["ipc"] or has_sysv_key(e["host_no_sysv_ipc_key"])):
        bad.append("a System V object of the program is on the host")
    if answer.seen["memory_kb"] > CLIENT_MEMORY_MB * 1024:
        bad.append(f"the client itself used {answer.seen['memory_kb'] >> 10} MB")
    return bad


def check_isolation(h, result):
    """Every result names its walls; the meters are there exactly when they can be had."""
    if result.get("backend") != "native" or any(o.startswith("--accept-missing") for o in h.a.option):
        return []
    bad, isolation = [], result["isolation"]
    layers, missing, meters = set(isolation["layers"]), set(isolation["missing"]), {"cgroup.memory", "cgroup.pids"}
    if WALLS - layers:
        bad.append(f"walls are missing: {sorted(WALLS - layers)}")
    if layers & missing:
        bad.append(f"both on and missing: {sorted(layers & missing)}")
    if h.a.warm:
        return bad
    if h.handed or (os.geteuid() == 0 and not h.a.as_user and handover.may_make_groups()):
        if meters - layers:
            bad.append(f"not metered by cgroup: {sorted(meters - layers)}")
    elif h.a.as_user and handover.memory_is_v1() and meters - missing:
        bad.append(f"claims to be metered by cgroup: {sorted(meters - missing)}")
    return bad


def check_artifacts(h, e, outdir):
    """What came back holds only plain files, no secret, and no more than was allowed. Any depth, any name."""
    def find(*words):
        return subprocess.run(["find", str(outdir), "-mindepth", "1", *words], capture_output=True).stdout.decode("utf-8", "replace")
    bad = []
    for words, what in ((("!", "-type", "f", "!", "-type", "d"), "is neither file nor directory"), (("-perm", "/6000"), "kept its set-id bit"),
                        (("-type", "f", "-size", "-32M", "-exec", "grep", "-lF", *(f"-e{v}" for v in h.secrets()), "--", "{}", "+"), "carries the canary")):
        found = find(*words).strip()
        if found:
            bad.append(f"{found.splitlines()[0][-100:]!r} {what}")
    for s in e.get("artifacts_must_have", []):
        if not (outdir / s).is_file():
            bad.append(f"{s!r} did not come back")
    sizes = [int(n) for n in find("-type", "f", "-printf", "%s\\n").split()]
    if sum(sizes) > e.get("artifacts_max_bytes", 1 << 40):
        bad.append(f"{sum(sizes)} bytes came back")
    return bad


def judge_killed(h, m, answer):
    """One of saggar's own processes was signalled: the command ends, owns up, and leaves nothing."""
    kill, bad = m["kill"], check_host(h, m["expect"], answer)
    if answer.seen["killed"] != kill["who"]:
        return [f"no {kill['who']} to signal: {answer.text()[-200:]!r}"]
    if kill["who"] == "client" and kill.get("signal", "SIGKILL") == "SIGKILL":
        return bad
    if answer.code not in m["expect"].get("client_exit", [125]):
        bad.append(f"the command exited with {answer.code}: {answer.text()[-200:]!r}")
    if b'"ok":true' in answer.out.replace(b" ", b""):
        bad.append("a run that was cut short is called ok")
    if kill["who"] == "keeper":  # nobody is left to remove its groups: the next run does
        h.survivors()  # reaps the dead one
        bad += warm_up(h, ["python"])
    return bad


def judge_terminal(h, m):
    """The same program once more, shown on a terminal."""
    e, bad = m["expect"], []
    args = [w for w in h.run_args(m, None) if w != "--json"]
    env = dict(h.env(), NO_COLOR="1", TERM="xterm-256color")
    wait = (e.get("max_wall_s", 20) + 10) * h.a.slow
    code, shown, pushed = terminal.run(h.command(args), env, str(h.work), h.owner, wait)
    text = shown.decode("utf-8", "replace")
    if code is None:
        bad.append("did not end on a terminal")
    if pushed:
        bad.append(f"pushed {pushed!r} into the terminal")
    if "ESCAPED:" in text or any(v in text for v in h.secrets()):
        bad.append(f"on a terminal: {text[-200:]!r}")
    if "tty_must_not_contain" in e:
        bad += [f"the terminal got {s!r}" for s in e["tty_must_not_contain"] if s in text]
        if terminal.control_characters(text):
            bad.append(f"the terminal got control characters {terminal.control_characters(text)}")
        raw = terminal.run(h.command([*args, "--raw"]), env, str(h.work), h.owner, wait)[1].decode("utf-8", "replace")
        if e["tty_must_not_contain"][0] not in raw:
            bad.append(f"--raw does not pass {e['tty_must_not_contain'][0]!r}: {raw[-200:]!r}")
    return bad


def judge_upload(h, m):
    """A later upload to the same names reaches the new run and nothing else (the command line uploads before a run)."""
    names, args = [f["path"] for f in m["upload_after"]], []
    for i, f in enumerate(m["upload_after"]):
        up = h.work / f"later-{i}"
        up.write_text(f["content"])
        args += ["--file", f"{up}:{f['path']}"]
    code = f"import os\nfor n in {names!r}: print(n, os.path.islink(n), open(n).read())"
    answer = h.call(["run", "-c", code, "--language", "python", "--json", *args], 20)
    try:
        shown = strict_json(answer.out)["stdout"]
    except (ValueError, KeyError):
        return [f"the later upload failed: {answer.text()[-300:]}"]
    return [f"{f['path']} did not arrive: {shown!r}" for f in m["upload_after"] if f"{f['path']} False {f['content']}" not in shown]


def judge_download(h, m):
    """Ends the program in the middle of its game and collects what is there, several times."""
    bad = []
    for i in range(4):
        outdir = h.new_outdir(f"{m['id']}-{i}")
        h.call(h.run_args(m, outdir, wall_s=0.4 + 0.13 * i), 20)
        bad += check_artifacts(h, m["expect"], outdir)
    return bad


def port_is_taken(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def judge_grade(h, m, tasks):
    e = m["expect"]
    task = dict(tasks[m["task"]]["judge"], language=m["language"], code=(h.corpus / m["file"]).read_text(encoding="utf-8", errors="surrogateescape"))
    bad, result = grade(h, task, e.get("max_wall_s", 60) * h.a.slow)
    if result and "score" in result:
        if "pass" in e.get("verdict_not_in", []) and result["all_passed"]:
            bad.append("all passed")
        if "max_score" in e and result["score"] > e["max_score"] + 1e-9:
            bad.append(f"scored {result['score']}")
        if max((c["wall_ms"] for c in result["cases"]), default=0) < 1000 * e.get("min_reported_wall_s", 0):
            bad.append("the time was forged")
    return bad, result


def grade(h, task, wait):
    f = h.work / "task.json"
    f.write_text(json.dumps(task))
    answer = h.call(["judge", str(f), "--json"], wait)
    try:
        result = json.loads(answer.out)
    except ValueError:
        return [f"no JSON result; exit {answer.code}; {answer.text()[-300:]}"], None
    bad = [f"saggar failed: {result['error']}"] if "error" in result else []
    if answer.wall > wait:
        bad.append(f"took {answer.wall:.1f} s")
    if any(v in json.dumps(result) for v in h.secrets()):
        bad.append("a canary's value is in the answer")
    return bad, result


def companion(h, m, rows):
    """What must run beside m, as a started process, or None."""
    if m["kind"] == "concurrent":
        f = h.work / m["other_run_file"]["path"]
        f.write_text(m["other_run_file"]["content"])
        args = ["run", "-c", "import time; time.sleep(8)", "--json", "--file", f"{f}:{f.name}"]
    elif m["kind"] == "concurrent_pair":
        args = h.run_args(next(r for r in rows if r["id"] == m["pair_with"]), None)
    elif m["kind"] == "concurrent_copies":
        args = h.run_args(m, None)
    else:
        return None
    p = h.start(args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    return p


def warm_up(h, languages):
    """One harmless run of each language, so that what saggar keeps for good is there before we compare; what is wrong."""
    bad = []
    for language in languages:
        answer = h.call(["run", "-c", HELLO[language], "--language", language, "--json"], 30 * h.a.slow)
        try:
            result = strict_json(answer.out)
        except ValueError:
            bad.append(f"{language}: no JSON result; {answer.text()[-300:].strip()}")
            continue
        if "error" in result:
            bad.append(f"{language}: {result['error']}")
        elif not h.a.warm:
            time.sleep(0.2)
            bad += [f"{p} is of a run that is over" for p in leftovers.tree(h.home) if result["id"] in p]
    return bad


def left_on_host(h, watch):
    """After a program, with nothing of ours running: processes, mounts, cgroups, files, System V objects."""
    bad, deadline = [], time.monotonic() + 2
    while (left := h.survivors()) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left:
        bad.append(f"{len(left)} processes survive: {sorted(left.values())[:5]}")
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
    h.tidy()
    bad += watch.complaints()
    if bad:
        watch.again()
    return bad


def one(h, m, rows, tasks, watch):
    """Runs one row with everything around it; what is wrong."""
    h.beside = companion(h, m, rows)
    bad, _ = judge_grade(h, m, tasks) if m["kind"] == "grade" else judge_run(h, m)
    if h.beside:
        try:
            h.beside.wait(timeout=40)
        except subprocess.TimeoutExpired:
            h.beside.kill()
            h.beside.wait()
            bad.append("the run beside it did not end")
        h.beside = None
    c = h.host_check()
    if m["expect"].get("decoy_alive") and not c.get("decoy_alive"):
        bad.append("the decoy is dead")
    if not c.get("ok"):
        bad.append(f"host canary: {c}")
        h.host("reset")
    if h.a.warm:
        h.tidy()
    else:
        bad += left_on_host(h, watch)
    if bad and m.get("optional") and h.a.tolerate_optional:
        h.notes.append(f"{m['id']} (optional): {'; '.join(bad)[:300]}")
        return []
    return bad


def groups(a, rows, wanted):
    """Rows in the order to run; the first of a pair goes right before the second."""
    todo = []
    for r in wanted:
        if r.get("pair_order") == 2 and r["kind"] == "pair":
            todo.append([next(x for x in rows if x["id"] == r["pair_with"]), r])
        elif r.get("pair_order") != 1 and not (a.warm and r.get("kill")):  # a server outlives its clients
            todo.append([r])
    return todo


def run_all(h, a, rows, wanted, tasks):
    """(how many ran, [(id, what is wrong)], {category: (good, all)})."""
    failed, ran, per, todo = [], 0, {}, groups(a, rows, wanted)
    bad = warm_up(h, sorted({r["language"] for r in wanted}))
    if bad:
        failed.append(("first-run", bad))
    h.tidy()
    state = [Path(os.environ["SAGGAR_HOME"])] if a.warm else [h.home, h.private, h.work]
    watch = leftovers.Watch(state, [h.tmp, CANARY, STATE, LOCK], leftovers.USER_UIDS if a.as_user else leftovers.RUN_UIDS, a.warm)
    foreign = foreign_processes()
    if any(r["category"] == "grader" for r in wanted):
        for t in tasks.values():
            bad, result = grade(h, dict(t["judge"], code=t["honest"]), 60)
            if not bad and not result.get("all_passed"):
                bad = [f"honest solution of {t['id']} did not pass: {result}"]
            ran += 1
            if bad:
                failed.append((f"honest-{t['id']}", bad))
    for rnd in range(a.rounds):
        if a.shuffle:
            random.Random(rnd).shuffle(todo)
        for m in (m for group in todo for m in group):
            bad = one(h, m, rows, tasks, watch)
            ran += 1
            ok, all_ = per.get(m["category"], (0, 0))
            per[m["category"]] = (ok + (not bad), all_ + 1)
            if bad:
                failed.append((m["id"], bad))
            if a.verbose or (bad and not a.json):
                print(("FAIL " if bad else "ok   ") + m["id"] + (": " + "; ".join(bad)[:900] if bad else ""), flush=True)
    if a.warm:
        failed += server_complaints(h, watch, foreign, any(r["kind"] == "run" for r in wanted))
    return ran, failed, per


def server_complaints(h, watch, foreign, expected_warm):
    """A server may keep a few idle workers and emptied cgroups, never one more for each run."""
    time.sleep(3)
    failed, grown = [], dict(watch.growth(), process=foreign_processes() - foreign)
    if expected_warm and not h.warm_seen:
        failed.append(("warm", ["no run was answered by a warm worker"]))
    for kind, n in grown.items():
        if n > (0 if kind in ("mount", "ipc") else IDLE_WORKERS):
            failed.append(("left-on-host", [f"{n} more {kind}(s) than at the start"]))
    h.notes.append("more than at the start: " + ", ".join(f"{n} {kind}" for kind, n in grown.items()))
    return failed


def alone():
    """Waits until no other check runs: canaries and ports are one set for the whole host."""
    lock = os.open(LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("waiting for another check to end", file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def main():
    a = parse()
    alone()
    h = Harness(a)
    try:
        rows = [json.loads(line) for line in open(h.corpus / "manifest.jsonl")]
        tasks = {t["id"]: t for t in json.load(open(h.tasks_file))["tasks"]}
        wanted = [r for r in rows if (not a.only or r["category"] in a.only or r["id"] in a.only) and r["category"] not in a.skip and r["id"] not in a.skip
                  and r.get("profile", "") in ["", *a.profile]]
        h.host("start")
        ran, failed, per = run_all(h, a, rows, wanted, tasks)
    finally:
        h.host("stop")
        if h.handed:
            h.handed.remove()
        subprocess.run(["rm", "-rf", str(h.tmp)])
    if a.json:
        print(json.dumps({"ran": ran, "failed": {i: b for i, b in failed}, "per_category": per, "notes": h.notes}))
    else:
        for i, bad in failed:
            if i in ("first-run", "warm", "left-on-host") or i.startswith("honest-"):
                print(f"FAIL {i}: " + "; ".join(bad)[:900])
        for note in h.notes:
            print("note " + note)
        for c, (ok, n) in sorted(per.items()):
            print(f"{c:12} {ok}/{n}")
        print(f"{ran - len({i for i, _ in failed})} passed, {len(failed)} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
