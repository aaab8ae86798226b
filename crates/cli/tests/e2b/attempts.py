"""What somebody would try who was given a signed address, a sandbox of his own, or another's name: nothing more comes of it."""
import base64
import hashlib
import http.client
import json
import os
import socket
import time
import urllib.parse

from e2b_code_interpreter import Sandbox

server = urllib.parse.urlparse(os.environ["E2B_API_URL"])
key, other = os.environ["E2B_API_KEY"], os.environ["OTHER_KEY"]
mine, theirs = Sandbox.create(timeout=300), Sandbox.create(timeout=300, api_key=other)
token = lambda sandbox: sandbox._envd_access_token
own = lambda sandbox: {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": token(sandbox)}
RAW, JSON = {"Content-Type": "application/octet-stream"}, {"Content-Type": "application/json"}


def ask(method, path, headers, body=b""):
    connection = http.client.HTTPConnection(server.hostname, server.port, timeout=60)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in {**headers, "Content-Length": str(len(body))}.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    return answer.status, answer.read()


def raw(text, wait=60):
    """Bytes as they are, and all that comes back until the server closes."""
    with socket.create_connection((server.hostname, server.port), timeout=wait) as line:
        line.sendall(text.encode() if isinstance(text, str) else text)
        back = b""
        try:
            while piece := line.recv(1 << 16):
                back += piece
        except OSError:
            pass
        return back


def status(answer):
    return int(answer.split(b" ", 2)[1])


# 1. A signed address means the user that was signed, whoever a header names: root's `who` is another file.
mine.files.write("who", "of user")
read, write = (urllib.parse.urlparse(make("who")).query for make in (mine.download_url, mine.upload_url))
root = {"Authorization": "Basic " + base64.b64encode(b"root:").decode()}
assert ask("GET", f"/files?{read}", root) == (200, b"of user")
told = ask("POST", f"/files?{write}", {**root, **RAW}, b"of user")
assert told[0] == 200 and json.loads(told[1])[0]["path"] == "/home/user/who", told

# 2. The same name twice, with other bytes in it, or beside others: what was signed is what is read, or nothing is.
for query in (f"path=/etc/passwd&{read}", read.replace("path=", "path%00="), f"{read}&username=root", f"username=root&{read}", f"{read}%00",
              read.replace("who", "who%00"), read.replace("who", "who/."), read.replace("who", "WHO"), read.replace("v1_", "v2_"), read.replace("v1_", "")):
    assert ask("GET", f"/files?{query}", {})[0] == 401, query
assert ask("GET", f"/files?{read.replace('who', '%ff')}", {})[0] == 400
assert ask("GET", f"/files?{read}&path=/etc/passwd", {}) == (200, b"of user")

# 3. It opens one act and one route.
for method in ("HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "post", "POST"):
    assert ask(method, f"/files?{read}", RAW, b"x")[0] >= 400, method
for path in ("/metrics", "/envs", "/process.Process/List", "//files", "/files/", "/FILES", "/files/../envs", "/files;x", "/files%3f"):
    for method in ("GET", "POST"):
        answer = ask(method, f"{path}?{read}", {"E2b-Sandbox-Id": mine.sandbox_id})
        assert answer[0] == 401, (method, path, answer)
assert mine.files.read("who") == "of user"

# 4. Times that are over, or none.
for expires in ("0", "1", "-1", "", " 99999999999", "9" * 40, "1e99", "99999999999.0", "\u0669" * 11):
    text = f"who:read::{token(mine)}:{expires}"
    signature = "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    query = urllib.parse.urlencode({"path": "who", "signature": signature, "signature_expiration": expires})
    assert ask("GET", f"/files?{query}", {})[0] == 401, expires

# 5. Names of hosts: another's sandbox wants another's token, and no name leads to the server's own routes.
for host in (f"8000-{theirs.sandbox_id}.localhost", f"49983-{theirs.sandbox_id}.x", f"49999-{theirs.sandbox_id}.x", f"049983-{theirs.sandbox_id}.x",
             f"+49983-{theirs.sandbox_id}.x"):
    for path in ("/files?path=/etc/passwd", "/v1/sessions", "/contexts"):
        assert ask("GET", path, {"Host": host, "X-Access-Token": token(mine)})[0] == 401, (host, path)
for host in (f"49983-{mine.sandbox_id}.x", "evil.example", f"127.0.0.1:{server.port}, 49983-{theirs.sandbox_id}.x"):
    assert ask("GET", "/v1/sessions", {"Host": host, "X-Access-Token": token(mine)})[0] == 404, host
two = "GET /files?path=who HTTP/1.1\r\nHost: 49983-{}.x\r\nHost: 49983-{}.x\r\nX-Access-Token: {}\r\nConnection: close\r\n\r\n"
assert status(raw(two.format(theirs.sandbox_id, mine.sandbox_id, token(mine)))) == 401
twice = f"GET /files?path=who HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {theirs.sandbox_id}\r\nE2b-Sandbox-Id: {mine.sandbox_id}\r\nX-Access-Token: {token(mine)}\r\nConnection: close\r\n\r\n"
assert status(raw(twice)) == 401

# 6. Programs inside that answer as no server should; what they say ends where their answer ends.
mine.files.write("odd.py", r'''
import socket, threading
def serve(port, answer):
    s = socket.create_server(("127.0.0.1", port))
    def one(c):
        try:
            got = c.recv(65536)
            open(f"/tmp/got{port}", "ab").write(got)
            answer(c)
        except OSError:
            pass
        c.close()
    while True:
        threading.Thread(target=one, args=(s.accept()[0],), daemon=True).start()
def endless(c):
    c.sendall(b"HTTP/1.1 200 OK\r\n")
    for i in range(10**7):
        c.sendall(b"X-%d: %s\r\n" % (i, b"a" * 8000))
say = lambda words: lambda c: c.sendall(words)
answers = {
    8100: say(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello"),
    8101: say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"),
    8102: endless,
    8103: say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    8104: say(b"\0" * 100000),
    8105: say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 9\r\n\r\nok"),
    8106: say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
}
for port, answer in answers.items():
    threading.Thread(target=serve, args=(port, answer)).start()
''')
mine.commands.run("python3 odd.py", background=True, timeout=0)
to = lambda port: f"E2b-Sandbox-Id: {mine.sandbox_id}\r\nE2b-Sandbox-Port: {port}\r\n"
through = lambda port, more="": raw(f"GET / HTTP/1.1\r\nHost: x\r\n{to(port)}{more}Connection: close\r\n\r\n")
end = time.monotonic() + 60
while any(b"port is not open" in through(port) for port in (8100, 8101, 8103, 8104, 8105, 8106)):
    assert time.monotonic() < end
    time.sleep(0.1)
for port, expected in ((8100, 502), (8102, 502), (8104, 502), (8105, 502), (8101, 200), (8103, 200), (8106, 200)):
    back = through(port)
    assert status(back) == expected and back.count(b"HTTP/1.1") == 1 and b"second" not in back, (port, back[:300])
# What follows on the same connection is another request, to the server.
for ahead in (f"GET / HTTP/1.1\r\nHost: x\r\n{to(8101)}\r\n", f"GET / HTTP/1.1\r\nHost: x\r\n{to(8100)}\r\n",
              f"POST / HTTP/1.1\r\nHost: x\r\n{to(8106)}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"):
    back = raw(f"{ahead}GET /v1/sessions HTTP/1.1\r\nHost: {server.netloc}\r\nConnection: close\r\n\r\n")
    assert b'"sessions"' not in back and (b"HTTP/1.1 401" in back or back.count(b"HTTP/1.1") == 1), back
assert b"SSH" not in raw(f"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n{to(8106)}Connection: close\r\n\r\n", 5)

# 7. No key of the server goes in, however it was sent.
basic = base64.b64encode(f"x:{key}".encode()).decode()
for words in (f"X-API-Key: {key}", f"X-API-Key: x\r\nX-API-Key: {key}", f"Authorization: Bearer {key}", f"Authorization: bearer {key}",
              f"Authorization: Basic {basic}", f"Authorization: x\r\nAuthorization: Bearer {key}", f"Proxy-Authorization: Bearer {key}"):
    assert status(through(8106, words + "\r\n")) == 200, words
seen = mine.files.read("/tmp/got8106")
assert seen.count("GET / ") >= 7 and key not in seen and basic not in seen, seen

# 8. Too much of anything.
for text in (f"GET / HTTP/1.1\r\nHost: x\r\n{to(8106)}X: {'a' * 1_000_000}\r\n\r\n", f"GET /{'a' * 1_000_000} HTTP/1.1\r\nHost: x\r\n{to(8106)}\r\n",
             f"GET / HTTP/1.1\r\nHost: x\r\n{to(8106)}{''.join(f'X{i}: 1' + chr(13) + chr(10) for i in range(5000))}\r\n"):
    assert status(raw(text)) in (414, 431)
long = ask("GET", "/health", {"E2b-Sandbox-Id": "i" * 60_000})
assert long[0] == 502 and len(long[1]) < 1000
deep = ask("POST", "/filesystem.Filesystem/ListDir", {**own(mine), **JSON}, b'{"path": "/usr", "depth": 4294967295}')
assert deep[0] == 200 or b"more than" in deep[1], deep[1][:200]

# 9. What is another's is not there in mine: interpreters, watchers, processes, snapshots.
code = {"E2b-Sandbox-Id": mine.sandbox_id, "E2b-Sandbox-Port": "49999", **JSON}
context = theirs.create_code_context().id
assert ask("POST", "/execute", code, json.dumps({"code": "1", "context_id": context}).encode())[0] == 404
for path in (f"/contexts/{context}", "/contexts/../../v1/sessions", "/contexts/%2e%2e"):
    assert ask("DELETE", path, code)[0] == 404, path
rpc = lambda sandbox, method, message: ask("POST", f"/{method}", {**own(sandbox), **JSON}, json.dumps(message).encode())
made, watcher = rpc(theirs, "filesystem.Filesystem/CreateWatcher", {"path": "/home/user"})
assert made == 200 and rpc(mine, "filesystem.Filesystem/GetWatcherEvents", json.loads(watcher))[0] == 404
running = theirs.commands.run("sleep 300", background=True, timeout=0)
for pid in (running.pid, 0, 1, 2, 4294967295):
    assert rpc(mine, "process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})[0] == 404, pid
assert running.pid in [process.pid for process in theirs.commands.list()]
snapshot = mine.create_snapshot().snapshot_id
for template in (snapshot, "../../etc", "/", "..", "a" * 5000, "\0", ""):
    body = json.dumps({"templateID": template, "timeout": 5}).encode()
    assert ask("POST", "/v2/sandboxes", {"X-API-Key": other, **JSON}, body)[0] == 404, template
assert ask("DELETE", f"/templates/{snapshot}", {"X-API-Key": other})[0] == 404
Sandbox.delete_snapshot(snapshot)

# 10. Links in the way of an upload lead nowhere but inside, also those that change while it comes.
name = f"e2b-attempt-{os.getpid()}"
mine.commands.run("ln -s /etc/passwd l1; ln -s /proc/1/root/tmp l2; ln -s ../../../../../../tmp l3; ln -s l4 l4; ln -s /dev/full l5; ln -s / l6; ln -s /proc/self/fd l7; ln -s /sys l8")
for path in ("l1", f"l2/{name}", "l4", "l5", "l7/0", "l8/x", "/proc/self/mem", "/proc/sysrq-trigger", "/sys/kernel/x", "x" * 300, "/".join(["d"] * 3000), "~", ".", "%2e%2e/%2e%2e/%2e%2e"):
    assert ask("POST", f"/files?path={path}", {**own(mine), **RAW}, b"x")[0] >= 400, path
for path in (f"l3/{name}", f"l6/tmp/{name}", f"/dev/shm/{name}", f"//tmp//{name}"):
    assert ask("POST", f"/files?path={path}", {**own(mine), **RAW}, b"x")[0] == 200, path
assert not [path for path in (f"/tmp/{name}", f"/dev/shm/{name}") if os.path.exists(path)]
mine.commands.run("mkdir s; while :; do ln -sfn /tmp s/x; rm -rf s/x; mkdir s/x; rm -rf s/x; done 2>/dev/null", background=True, timeout=0)
for _ in range(50):
    ask("POST", f"/files?path=s/x/{name}", {**own(mine), **RAW}, b"x")
assert not os.path.exists(f"/tmp/{name}")

# 11. The kernel has so many watchers for all: one caller cannot take them from another.
boxes = [mine, *(Sandbox.create(timeout=120) for _ in range(2))]
answers = [rpc(box, "filesystem.Filesystem/CreateWatcher", {"path": "/home/user"}) for box in boxes for _ in range(64)]
assert answers[0][0] == 200 and answers[-1][0] == 429, answers[-1]
assert rpc(theirs, "filesystem.Filesystem/CreateWatcher", {"path": "/home/user"})[0] == 200

# 12. What is only named, and waits in the server's memory, is bounded.
assert ask("POST", "/contexts", code, json.dumps({"cwd": "/" + "a" * 5_000_000}).encode())[0] == 400
answers = [ask("POST", "/contexts", code, b"{}")[0] for _ in range(70)]
assert answers[0] == 200 and answers[-1] == 429, answers
for more in ({"code": "(" * 30_000_000}, {"code": "1", "env_vars": {f"A{i}": "value" for i in range(150_000)}}):
    told = ask("POST", "/execute", code, json.dumps(more).encode())
    assert b"ExecutionError" in told[1], told
for more in ({"envVars": {"A": "a" * 2_000_000}}, {"metadata": {"a": "a" * 100_000}}):
    assert ask("POST", "/v2/sandboxes", {"X-API-Key": key, **JSON}, json.dumps({"timeout": 5, **more}).encode())[0] == 400, more.keys()
for box in boxes:
    box.kill()
theirs.kill(api_key=other)
print("done")
