"""The corpus inside sessions: each program in a session of its own, which a running server keeps."""
import json, os, shutil, subprocess, time

import terminal
from expect import check_artifacts, check_host, check_isolation, check_outcome, check_output, status_of, strict_json

COMMANDS = {"python": ["python3"], "bash": ["bash"], "node": ["node"], "perl": ["perl"]}
COMPILERS = {"c": (["cc", "-O2", "-pthread", "-o", "main"], ["-lm"]), "cpp": (["c++", "-O2", "-pthread", "-o", "main"], [])}
KILL_THEIR_PARENT = ("proc-init-signals", "proc-kill-everybody")
MOST_FETCHED = 40  # files of one program that are brought back


def has_one_user(h):
    """Of an ordinary user's server, and in a container, everybody inside is the same user."""
    return h.a.as_user or "--backend=docker" in h.a.option


class Refused(Exception):
    """A command about a session that should have worked did not."""


class Place:
    """A session with the limits of a row and its files in it."""

    def __init__(self, h, m):
        lim = m["limits"]
        self.h, self.m, self.gone, self.wait = h, m, False, m["expect"].get("max_wall_s", 20) * h.a.slow
        wall = f"{int(lim['wall_s'] * h.a.slow * 1000)}ms"
        made = self.ask("create", "--timeout", wall, "--memory", f"{lim['memory_mb']}M", "--pids", str(lim["pids"]), "--disk", f"{lim['disk_mb']}M",
                        "--inodes", str(lim["inodes"]), "--output-limit", f"{max(1, lim['output_bytes'] // 1024)}K", *m.get("options", []))
        self.id = made["id"]
        self.name = os.path.basename(m["file"])
        self.put(self.h.corpus / m["file"], self.name)
        for f in m.get("files", []):
            self.write(f)

    def ask(self, verb, *words):
        answer = self.h.call(["session", verb, *words, "--json"], 30 * self.h.a.slow)
        try:
            result = strict_json(answer.out)
        except ValueError as x:
            raise Refused(f"session {verb}: no JSON ({x}); exit {answer.code}; {answer.text()[-300:].strip()}")
        if answer.code != 0:
            raise Refused(f"session {verb}: {result}")
        return result

    def put(self, source, name):
        own = self.h.work / f"put-{os.path.basename(name)}"
        shutil.copyfile(source, own)
        return self.ask("put", self.id, str(own), f"/work/{name}")

    def write(self, f):
        own = self.h.work / "content"
        own.write_text(f["content"])
        return self.put(own, f["path"])

    def exec_args(self, argv, *options):
        return ["session", "exec", self.id, *options, "--", *argv]

    def exec(self, argv, m=None):
        """(the answer, the result)."""
        answer = self.h.call(self.exec_args(argv, "--json"), self.wait, m)
        try:
            return answer, strict_json(answer.out)
        except ValueError as x:
            raise Refused(f"no JSON result ({x}); exit {answer.code}; {answer.text()[-300:].strip()}")

    def command(self):
        return [*COMMANDS.get(self.m["language"], ["./main"]), *([] if self.m["language"] in COMPILERS else [self.name]), *self.m.get("args", [])]

    def compiler(self):
        """The words that compile the program, or None."""
        before, after = COMPILERS.get(self.m["language"], (None, None))
        return before and [*before, f"./{self.name}", *after]

    def run(self):
        """Compiles, runs; (the answer, the result) of what was last."""
        if self.compiler():
            answer, result = self.exec(self.compiler(), dict(self.m, expect={}))
            if not result.get("ok"):
                return answer, dict(result, compile={"ok": False, "outcome": result.get("outcome", {})})
        return self.exec(self.command(), self.m)

    def get(self, name, into):
        """Whether a file came; one that cannot is no fault of anybody."""
        into.parent.mkdir(parents=True, exist_ok=True)
        for folder in into.parents:
            if self.h.work in folder.parents:
                os.chown(folder, self.h.owner, self.h.owner)
        return self.h.call(["session", "get", self.id, f"/work/{name}", str(into)], 20 * self.h.a.slow).code == 0

    def fetch(self, outdir):
        """Brings back what the program left: what the row names, and the first few of all others."""
        named = [*self.m["expect"].get("artifacts_must_have", []), *self.m.get("download_after", []), *self.m.get("download_during", [])]
        answer = self.h.call(["session", "ls", self.id, "/work", "--depth", "60", "--json"], 30 * self.h.a.slow)
        listed = strict_json(answer.out) if answer.code == 0 else []
        others = [e["path"].removeprefix("/work/") for e in listed if e["type"] in ("file", "link") and e["bytes"] < 32 << 20]
        for i, name in enumerate([*named, *others[:MOST_FETCHED]]):
            plain = name in named and "\0" not in name and ".." not in name
            self.get(name, outdir / name if plain else outdir / f"other-{i}")

    def kill(self):
        if not self.gone:
            self.ask("kill", self.id)


def check_expected(h, m, result, answer):
    """What holds in sessions too. Exceptions are not taken apart there, and a disk that is only watched does not deny."""
    e = {k: v for k, v in m["expect"].items() if k != "exception_type"}
    if "killed:memory" in e.get("status_in", []):
        # One process is killed, not all: those that are left may wait for it.
        e["status_in"] = [*e["status_in"], "killed:timeout"]
    if has_one_user(h) and m["id"] in KILL_THEIR_PARENT and result["outcome"] == {"kind": "signaled", "signal": 9}:
        h.notes.append(f"{m['id']}: of one user, so it killed the process that waited for it")
        e = {k: v for k, v in e.items() if k not in ("status_in", "exit_code")}
    if m.get("needs_layer") == "disk_quota" and "disk_quota" in result["isolation"]["missing"]:
        # It is watched: whoever fills it is stopped, and does not come to tell of it.
        h.notes.append(f"{m['id']}: {result['outcome']} without disk_quota")
        told = [f"{result['stdout'][-80:]!r}"] if "ESCAPED:" in result["stdout"] else []
        return told + check_host(h, e, answer) + check_isolation(h, result)
    if has_one_user(h) and m["id"] == "fs-driver-files" and result["stdout"] == "ESCAPED:made /home/hostile_dropped\nNOT-CONTAINED\n":
        h.notes.append(f"{m['id']}: of one user, whose /home is on the session's own disk")
        return check_host(h, e, answer) + check_isolation(h, result)
    if not has_one_user(h) and m["id"] == "priv-userns-tools" and result["stdout"] == "ESCAPED:sudo -n id\nNOT-CONTAINED\n":
        h.notes.append(f"{m['id']}: sudo is root of the session alone, who is nobody outside")
        return check_host(h, e, answer) + check_isolation(h, result)
    bad = check_output(h, dict(m, expect=e), result, answer) + check_host(h, e, answer) + check_isolation(h, result)
    if result.get("compile"):
        # The command line ends as the compiler did.
        return bad + [x for x in check_outcome(e, result, answer) if not x.startswith("exit code ")]
    return bad + check_outcome(e, result, answer)


def judge(h, m, place):
    """Runs one row in its session; what is wrong."""
    collects = m.get("collect_artifacts") or m.get("download_after")
    answer, result = place.run()
    if "error" in result:
        return [f"saggar failed: {result['error']}"]
    bad = check_expected(h, m, result, answer)
    if collects:
        outdir = h.new_outdir(m["id"])
        place.fetch(outdir)
        # Files come one by one, each as large as it is; only `--out` of a run brings all of them.
        bad += check_artifacts(h, {k: v for k, v in m["expect"].items() if k != "artifacts_max_bytes"}, outdir)
    if m.get("tty_run"):
        bad += judge_terminal(h, m, place)
    if m.get("upload_after"):
        bad += judge_upload(place, m)
    if m.get("download_during"):
        bad += judge_download(h, m, place)
    return bad + judge_alive(place, status_of(result))


def judge_alive(place, status):
    """Whatever ran, the session still answers; unless it is full of what was left, or memory ran out for process 1 too."""
    _, result = place.exec(["true"])
    if result.get("ok") or "error" not in result and status_of(result) in ("killed:memory", "killed:disk", "killed:cpu"):
        return []
    code = result.get("error", {}).get("code")
    # In a container nobody is left who could do without processor time, so that it ends with it.
    spent = status == "killed:cpu" and "--backend=docker" in place.h.a.option
    if code == "not_found" and (status == "killed:memory" or spent):
        place.gone = True
        place.h.notes.append(f"{place.m['id']}: its session ended with it")
        return []
    return [] if code == "resources_exhausted" else [f"the session is of no use any more: {result.get('error') or result['outcome']}"]


def judge_terminal(h, m, place):
    """The same program once more, shown on the client's own terminal, and then with a terminal of its own."""
    argv = place.compiler() if m["category"] == "compile" else place.command()
    wait = place.wait + 10 * h.a.slow
    bad = terminal.judge(h, m["expect"], wait, place.exec_args(argv), place.exec_args(argv, "--raw"))
    # A terminal inside is the program's own: whatever it pushes into that must not come out at ours.
    pushed = terminal.shown(h, ["session", "shell", place.id, "--", *argv], wait)[2]
    if pushed:
        bad.append(f"through its own terminal it pushed {pushed!r} into ours")
    return bad


def judge_upload(place, m):
    """Uploads to names that the program made links of. They may be refused; what arrives is inside."""
    bad = []
    for f in m["upload_after"]:
        try:
            place.write(f)
        except Refused:
            continue
        _, result = place.exec(["cat", f"/work/{f['path']}"])
        if result.get("stdout") != f["content"]:
            bad.append(f"{f['path']} did not arrive: {result.get('stdout')!r}")
    return bad


def judge_download(h, m, place):
    """Downloads and uploads while the program swaps links: nothing of the host comes out, nothing goes in."""
    started = h.call(["session", "exec", place.id, "--background", "--json", "--", *place.command()], 20)
    if started.code != 0:
        return [f"not started in the background: {started.text()[-200:]}"]
    outdir, deadline, i = h.new_outdir(m["id"] + "-during"), time.monotonic() + 3 * h.a.slow, 0
    (h.work / "race").write_text("RACE")
    while time.monotonic() < deadline:
        for name in m["download_during"]:
            place.get(name, outdir / f"{i}")
            h.call(["session", "put", place.id, str(h.work / "race"), f"/work/{name}"], 20)
            i += 1
    return check_artifacts(h, m["expect"], outdir)


def neighbour(h, m):
    """A session beside that of a row, in which somebody else's secret lies and something runs."""
    place = Place(h, m)
    place.write(m["other_run_file"])
    h.call(["session", "exec", place.id, "--background", "--json", "--", "sleep", "60"], 20)
    return place


def one(h, m):
    """Runs one row with the sessions around it; what is wrong. The first of a pair stays while the second runs in another."""
    bad, place = [], None
    try:
        if m["kind"] == "concurrent":
            h.neighbours.append(neighbour(h, m))
        place = Place(h, m)
        bad += judge(h, m, place)
    except Refused as x:
        bad.append(str(x))
    if place and m["kind"] == "pair" and m["pair_order"] == 1:
        h.neighbours.append(place)
        return bad
    for known in [*h.neighbours, *([place] if place else [])]:
        try:
            known.kill()
        except Refused as x:
            bad.append(str(x))
    h.neighbours.clear()
    return bad


def warm_up(h):
    """One harmless session, so that what saggar keeps for good is there before we compare; what is wrong."""
    limits = {"wall_s": 20, "memory_mb": 256, "pids": 64, "output_bytes": 65536, "disk_mb": 64, "inodes": 20000}
    (h.work / "hello.sh").write_text("echo 1\n")
    return one(h, {"id": "first", "kind": "run", "category": "benign", "language": "bash", "file": str(h.work / "hello.sh"), "limits": limits, "expect": {"stdout_must_contain": ["1"]}})
