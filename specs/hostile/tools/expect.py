"""What a result must look like: the row's own expectations, and what holds for every run."""
import base64, json, os, subprocess

import handover
from harness import has_sysv_key

STATUS = {"wall": "killed:timeout", "cpu": "killed:cpu", "memory": "killed:memory", "disk": "killed:disk", "inodes": "killed:disk", "pids": "killed:pids", "output": "killed:output"}
WALLS = {"user_ns", "mount_ns", "pid_ns", "net_ns", "ipc_ns", "uts_ns", "cgroup_ns", "no_new_privs", "seccomp", "caps_dropped"}
CLIENT_MEMORY_MB = 192  # the client's own peak: it must not grow with what a program prints or leaves


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
    if h.a.server:
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
