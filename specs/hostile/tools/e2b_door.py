"""The corpus through E2B's own client: each program in a sandbox of a running server, by `commands.run` and by `run_code`.

E2B's interface has no limits of a run but the time, so limits are the server's own: what a row says of them does not apply here.
What must hold is that nothing gets out, that honest programs work, and that the server lives.
"""
import json, os, subprocess, time

from e2b import CommandExitException, SandboxException, TimeoutException
from e2b_code_interpreter import Sandbox

from harness import Answer, Watcher

COMMANDS = {"python": "python3", "bash": "bash", "node": "node", "perl": "perl"}
COMPILERS = {"c": "cc -O2 -pthread -o main ./{} -lm", "cpp": "c++ -O2 -pthread -o main ./{}"}
CELLS = {"python": "python", "bash": "bash", "node": "js"}
FLOODS = ("output", "terminal")  # the client keeps all that it hears
LIFE = 300

# What a row takes for a way out and is none here: (id, way) and why. It is told, with what was seen.
KNOWN = {
    ("fs-inherited-fds", "code"): "a cell runs in the interpreter's own process, which has its own pipes",
    **{("out-inodes-everywhere", way): "the row's limit is lower than the server's" for way in ("command", "code")},
    ("priv-userns-tools", "command"): "sudo is root of the sandbox alone",
    ("priv-userns-tools", "code"): "sudo is root of the sandbox alone",
}


def quoted(word):
    return "'" + word.replace("'", "'\\''") + "'"


class Place:
    """A sandbox with a row's files in it."""

    def __init__(self, h, m):
        self.h, self.m, self.name = h, m, os.path.basename(m["file"])
        self.wall = min(m["limits"]["wall_s"], 20) * h.a.slow
        self.box = Sandbox.create(timeout=LIFE)
        self.put(self.name, (h.corpus / m["file"]).read_bytes())
        for f in m.get("files", []):
            self.put(f["path"], f["content"].encode())

    def put(self, name, content):
        self.box.files.write(f"/work/{name}", content)

    def command(self):
        start = COMMANDS.get(self.m["language"])
        words = [start, self.name] if start else ["./main"]
        words += map(quoted, self.m.get("args", []))
        if "stdin" in self.m:
            self.box.files.write("/tmp/input", self.m["stdin"])
            words += ["<", "/tmp/input"]
        elif self.m.get("stdin_from") == "endless":
            words += ["<", "/dev/zero"]
        return " ".join(words)

    def run(self):
        """(how it ended, what it said)."""
        compiler = COMPILERS.get(self.m["language"])
        try:
            if compiler:
                self.box.commands.run(compiler.format(quoted(self.name)), cwd="/work", timeout=60 * self.h.a.slow)
            command = self.command()
            if self.m["category"] in FLOODS:
                command = f"{{ {command} ; }} 2>&1 | head -c 1000000"
            held = self.m.get("stdin_from") == "held"
            done = self.box.commands.run(command, cwd="/work", timeout=self.wall, stdin=held)
            return "exit", done.stdout + done.stderr
        except CommandExitException as x:
            return "exit" if x.exit_code >= 0 else "killed", x.stdout + x.stderr
        except TimeoutException:
            return "killed", ""
        except SandboxException as x:
            return "failed", str(x)

    def cell(self):
        """The same as a cell of an interpreter that stays."""
        code = (self.h.corpus / self.m["file"]).read_text(encoding="utf-8", errors="replace")
        said = []
        try:
            done = self.box.run_code(code, language=CELLS[self.m["language"]], timeout=self.wall,
                                     on_stdout=lambda o: said.append(str(o)), on_stderr=lambda o: said.append(str(o)))
            said.append(str(done.error.traceback if done.error else ""))
            return "exit", "".join(said)
        except (TimeoutException, SandboxException):
            return "killed", "".join(said)

    def kill(self):
        self.box.kill()


def judge(h, m, place, way):
    """Runs one row one way; what is wrong."""
    e, bad = m["expect"], []
    watcher = Watcher(h, os.getpid(), dict(m, kill=None))
    begun = time.monotonic()
    watcher.start()
    how, text = place.run() if way == "command" else place.cell()
    watcher.stop()
    answer = Answer(0, text.encode("utf-8", "replace"), b"", time.monotonic() - begun, watcher.seen)
    for s in e.get("stdout_must_not_contain", []):
        if not s.startswith("CANARY-") and s in text:
            i = text.index(s)
            seen = f"{text[i:i + 80]!r}"
            if (m["id"], way) in KNOWN:
                h.notes.append(f"{m['id']} by {way}: {seen}: {KNOWN[m['id'], way]}")
            else:
                bad.append(seen)
    if any(v in text for v in h.secrets()):
        bad.append("a canary's value is in the answer")
    if m["category"] == "benign" and way == "command":
        bad += [f"stdout lacks {s!r}: {text[-200:]!r}" for s in e.get("stdout_must_contain", []) if s not in text]
    bad += [f"{p} exists on the host" for p in e.get("host_must_not_exist", []) if os.path.lexists(p)]
    if answer.seen["connected"]:
        bad.append("the host could connect to a port inside")
    if answer.seen["ipc"]:
        bad.append("a System V object of the program is on the host")
    if answer.wall > place.wall + 60 * h.a.slow:
        bad.append(f"took {answer.wall:.1f} s")
    return [f"by {way}: {x}" for x in bad]


def uploads(place, m):
    """Uploads to names that the program made links of: they may be refused; what arrives is inside."""
    for f in m.get("upload_after", []):
        try:
            place.put(f["path"], f["content"].encode())
        except SandboxException:
            pass


def downloads(h, m, place):
    """Downloads of names that the program made: nothing of the host comes out."""
    bad = []
    for name in [*m.get("download_after", []), *m["expect"].get("artifacts_must_have", [])]:
        try:
            content = bytes(place.box.files.read(f"/work/{name}", format="bytes"))
        except Exception:  # a file that cannot be had is no fault of anybody
            continue
        if any(v.encode() in content for v in h.secrets()):
            bad.append(f"{name!r} carries the canary")
    return bad


def one(h, m):
    """Runs one row with the sandboxes around it; what is wrong."""
    bad, places = [], []
    # A cell has no input of its own.
    cell = m["language"] in CELLS and m["category"] not in FLOODS and "stdin_from" not in m
    ways = ["command", "code"] if cell else ["command"]
    try:
        if m["kind"] == "concurrent":
            beside = Place(h, m)
            places.append(beside)
            beside.put(m["other_run_file"]["path"], m["other_run_file"]["content"].encode())
        for way in ways:
            place = Place(h, m)
            places.append(place)
            bad += judge(h, m, place, way)
            uploads(place, m)
            bad += downloads(h, m, place)
    except SandboxException as x:
        bad.append(f"the server failed: {x}")
    for place in places:
        try:
            place.kill()
        except Exception as x:
            bad.append(f"a sandbox could not be ended: {x}")
    return bad


def warm_up(h):
    """One harmless sandbox, so that what saggar keeps for good is there before we compare; what is wrong."""
    box = Sandbox.create(timeout=LIFE)
    try:
        done = box.run_code("6 * 7")
        return [] if done.text == "42" else [f"run_code: {done}"]
    finally:
        box.kill()


def made(h):
    """How many sandboxes there were, and how many of them had waited for somebody to ask, as the audit trail has it."""
    command = [h.a.saggar, "audit", "list", "--kind", "session", "--outcome", "created", "--limit", "100000", "--json"]
    entries = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return len(entries), sum(entry["details"]["facts"]["ahead"] for entry in entries)
