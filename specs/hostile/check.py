#!/usr/bin/env python3
"""Runs the hostile corpus through saggar's command line and says what got out.

  check.py --saggar PATH                         everything, each program as its own cold run
  check.py --saggar PATH --only network          one category, or one id
  check.py --saggar PATH --as-user               as an ordinary user (needs root to become one)
  check.py --saggar PATH --as-user --cgroup-handed-over   the same, with a cgroup that root made for that user
  check.py --saggar PATH --option=--backend=docker     extra option for every call, repeatable
  check.py --saggar PATH --warm --rounds 10 --shuffle  through a running `saggar serve` whose SAGGAR_HOME is exported
  check.py --saggar PATH --session               inside sessions of such a server, each program in one of its own
  check.py --saggar PATH --e2b                   in sandboxes of such a server by E2B's own client, which this Python must have
  check.py --saggar PATH --slow 10               on a slow machine (emulated): wall limits times ten

Exit 0 when everything was contained, every benign program worked, no cheat scored and nothing was left on the host.
"""
import argparse, fcntl, json, os, random, signal, subprocess, sys, time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))
import inside, leftovers, terminal
from expect import check_artifacts, check_host, check_isolation, check_outcome, check_output, strict_json
from harness import STATE, Harness, answers, foreign_processes

CANARY = Path("/var/tmp/hostile-canary")
LOCK = "/var/tmp/hostile-check.lock"
HELLO = {"python": "print(1)", "bash": "echo 1", "node": "console.log(1)", "c": "int main(void) { return 0; }", "cpp": "int main() { return 0; }", "perl": "print 1;"}
IDLE_PROCESSES = 24  # keepers, sweepers and zygotes that a server may keep
DRAIN_SECONDS = 90  # until when its shelves must be empty


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
    p.add_argument("--session", action="store_true")
    p.add_argument("--e2b", action="store_true")
    p.add_argument("--slow", type=float, default=1.0)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--shuffle", action="store_true")
    p.add_argument("--option", action="append", default=[])
    p.add_argument("--json", action="store_true")
    p.add_argument("-v", "--verbose", action="store_true")
    a = p.parse_args()
    a.server = a.warm or a.session or a.e2b
    if a.server and "SAGGAR_HOME" not in os.environ:
        p.error("--warm, --session, --e2b: export the SAGGAR_HOME of the running server")
    if a.cgroup_handed_over and (not a.as_user or a.server or os.geteuid() != 0):
        p.error("--cgroup-handed-over needs root and --as-user, and no server")
    return a


def judge_run(h, m):
    """Runs one row; (what is wrong, the result or None)."""
    e = m["expect"]
    if "host_connect_must_fail" in e and answers(e["host_connect_must_fail"]):
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
        h.survivors()  # the dead one must be reaped to count as dead
        bad += warm_up(h, ["python"])
    return bad


def judge_terminal(h, m):
    """The same program once more, shown on a terminal."""
    args = [w for w in h.run_args(m, None) if w != "--json"]
    wait = (m["expect"].get("max_wall_s", 20) + 10) * h.a.slow
    return terminal.judge(h, m["expect"], wait, args, [*args, "--raw"])


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
        elif not h.a.server:
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


def door(a):
    """Who runs a row in place of the command line, if anybody."""
    if a.e2b:
        import e2b_door
        return e2b_door
    return inside if a.session else None


def one(h, m, rows, tasks, watch):
    """Runs one row with everything around it; what is wrong."""
    if door(h.a):
        bad = door(h.a).one(h, m)
    else:
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
    if h.a.server:
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
        elif r.get("pair_order") != 1 and not (a.server and r.get("kill")):  # a server outlives its clients
            todo.append([r])
    return todo


def run_all(h, a, rows, wanted, tasks):
    """(how many ran, [(id, what is wrong)], {category: (good, all)})."""
    failed, ran, per, todo = [], 0, {}, groups(a, rows, wanted)
    bad = door(a).warm_up(h) if door(a) else warm_up(h, sorted({r["language"] for r in wanted}))
    if bad:
        failed.append(("first-run", bad))
    h.tidy()
    state = [Path(os.environ["SAGGAR_HOME"])] if a.server else [h.home, h.private, h.work]
    watch = leftovers.Watch(state, [h.tmp, CANARY, STATE, LOCK], leftovers.USER_UIDS if a.as_user else leftovers.RUN_UIDS, None if a.server else h.keepers)
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
    if a.server:
        failed += server_complaints(h, watch, foreign, a.warm and any(r["kind"] == "run" for r in wanted))
    return ran, failed, per


def server_complaints(h, watch, foreign, expected_warm):
    """A server may keep its keepers and zygotes. Everything else is gone once it has emptied its shelves."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while True:
        grown = dict(watch.growth(), process=foreign_processes() - foreign)
        left = {kind: n for kind, n in grown.items() if n > (IDLE_PROCESSES if kind == "process" else 0)}
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    failed = [("left-on-host", [f"{n} more {kind}(s) than at the start"]) for kind, n in left.items()]
    if expected_warm and not h.warm_seen:
        failed.append(("warm", ["no run was answered by a warm worker"]))
    if h.a.e2b:
        made, ahead = door(h.a).made(h)
        h.notes.append(f"{ahead} of {made} sandboxes were made ahead of need")
        if not ahead:
            failed.append(("warm", ["no sandbox was made ahead of need"]))
    h.notes.append("more than at the start: " + ", ".join(f"{n} {kind}" for kind, n in grown.items()))
    h.notes += [f"new {kind}s: {watch.new(kind)[:5]}" for kind in left if kind != "process"]
    return failed


def alone():
    """Waits until no other check runs: canaries and ports are one set for the whole host."""
    try:
        lock = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        lock = os.open(LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        os.fchmod(lock, 0o666)  # the next check may be somebody else's
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
                  and r.get("profile", "") in ["", *a.profile] and not (door(a) and r["kind"] == "grade")]
        h.host("start")
        ran, failed, per = run_all(h, a, rows, wanted, tasks)
    finally:
        h.host("stop")
        if h.handed:
            h.handed.remove()
        if h.standing:
            h.standing.remove()
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
