"""What a sandbox's name, a wrong token or another's token are good for: nothing."""
import json
import os
import urllib.error
import urllib.request

from e2b import AuthenticationException, Sandbox

url = os.environ["E2B_API_URL"]
one, two = Sandbox.create(timeout=120), Sandbox.create(timeout=120)
one.files.write("secret", "of one")
token = lambda sandbox: sandbox._envd_access_token


def ask(path, headers, data=None, method=None):
    request = urllib.request.Request(url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


to = lambda sandbox, port=49983: {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(port)}
start = {"Content-Type": "application/connect+json"}
for headers in ({}, {"X-Access-Token": ""}, {"X-Access-Token": token(two)}, {"X-Access-Token": token(one)[:-1] + "x"}):
    assert ask("/files?path=secret", {**to(one), **headers})[0] == 401, headers
    assert ask("/process.Process/Start", {**to(one), **start, **headers}, b"")[0] == 401, headers
    assert ask("/filesystem.Filesystem/Stat", {**to(one), **headers}, b"{}")[0] == 401, headers
assert ask("/files?path=secret", {**to(one), "X-Access-Token": token(one)}) == (200, b"of one")
assert ask("/files?path=secret", {"X-Access-Token": token(one)}) == (200, b"of one"), "a token alone finds its sandbox"
assert ask("/execute", {"X-Access-Token": token(one)}, json.dumps({"code": "1"}).encode())[0] == 200

# The server's own routes are not a sandbox's, and the other way round.
for path in ("/v1/sessions", "/sandboxes", "/v1/runs"):
    # The control plane is asked for its key, whatever sandbox is named beside.
    assert ask(path, {**to(one), "X-Access-Token": token(one)})[0] == (401 if path == "/sandboxes" else 404), path
    assert ask(path, {})[0] == 401, path
    assert ask(path, {"X-API-Key": token(one)})[0] == 401, path
status, body = ask("/files?path=secret", {"E2b-Sandbox-Id": "i" + "0" * 31, "X-Access-Token": token(one)})
assert status == 502 and "was not found" in json.loads(body)["message"], body
try:
    Sandbox.create(api_key="e2b_" + "0" * 40)
    raise SystemExit("a wrong key made a sandbox")
except AuthenticationException:
    pass

# What is written goes nowhere but inside.
put = {**to(one), "X-Access-Token": token(one), "Content-Type": "application/octet-stream"}
one.commands.run("ln -s / root; ln -s /proc/self/root/etc etc; mkfifo pipe")
for path in ("root/etc/passwd", "etc/passwd", "/proc/1/mem", "/dev/null/x", "pipe", "/etc/shadow", "%00"):
    assert ask(f"/files?path={path}", put, b"x")[0] >= 400, path
for path in ("/proc/1/environ", "/proc/self/environ", "/etc/shadow", "pipe", "/dev/zero"):
    assert ask(f"/files?path={path}", put)[0] >= 400, path
assert ask("/files?path=x&username=nobody-here", put, b"x")[0] == 401
assert ask("/files?path=x", {**put, "Content-Encoding": "gzip"}, b"not packed")[0] >= 400
assert ask("/process.Process/Start", {**put, **start}, b"\0\xff\xff\xff\xff")[0] == 200, "an error in a frame"
assert ask("/filesystem.Filesystem/Stat", put, b"{")[0] == 400
one.kill()
two.kill()
print("done")
