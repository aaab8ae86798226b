"""One tenant's sandboxes, the server and the host, from another tenant's side and from inside a sandbox."""
import http.client
import json
import os
import socket
import urllib.parse

from e2b import Sandbox

server = urllib.parse.urlparse(os.environ["E2B_API_URL"])
other = os.environ["OTHER_KEY"]
mine, theirs = Sandbox.create(timeout=120), Sandbox.create(timeout=120, api_key=other)
mine.files.write("secret", "of mine")


def ask(method, path, headers, body=b""):
    connection = http.client.HTTPConnection(server.hostname, server.port, timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in {**headers, "Content-Length": str(len(body))}.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    return answer.status, answer.read()


# Another tenant's key: nothing of mine is there, whatever is asked.
own = f"/sandboxes/{mine.sandbox_id}"
for method, path in (("GET", own), ("GET", f"{own}/metrics"), ("GET", f"{own}/logs"), ("POST", f"{own}/connect"), ("POST", f"/v2{own}/connect"),
                     ("POST", f"{own}/resume"), ("POST", f"{own}/pause"), ("POST", f"{own}/timeout"), ("POST", f"{own}/refreshes"), ("POST", f"{own}/snapshots"),
                     ("POST", f"{own}/fork"), ("DELETE", own)):
    status, body = ask(method, path, {"X-API-Key": other, "Content-Type": "application/json"}, b'{"timeout": 0}')
    assert status == 404 and b"Token" not in body, (method, path, status, body)
assert [box["sandboxID"] for box in json.loads(ask("GET", "/v2/sandboxes", {"X-API-Key": other})[1])] == [theirs.sandbox_id]
assert mine.is_running()

# Signed addresses open one file of one sandbox for one act.
signed = urllib.parse.urlparse(mine.download_url("secret"))
query = urllib.parse.parse_qs(signed.query)
assert ask("GET", f"{signed.path}?{signed.query}", {}) == (200, b"of mine")
changed = lambda **more: "/files?" + urllib.parse.urlencode({**{name: value[0] for name, value in query.items()}, **more})
for path in (changed(path="secret2"), changed(path="/etc/passwd"), changed(path="./secret"), changed(username="root"), changed(signature_expiration="9999999999")):
    assert ask("GET", path, {})[0] == 401, path
assert ask("POST", f"{signed.path}?{signed.query}", {"Content-Type": "application/octet-stream"}, b"x")[0] == 401, "signed to be read"
assert ask("GET", f"{signed.path}?{signed.query}", {"E2b-Sandbox-Id": theirs.sandbox_id})[0] == 401, "signed for another"

# The port proxy leads to ports of that sandbox and nowhere else.
listener = socket.create_server(("127.0.0.1", 0))
host_port = listener.getsockname()[1]
for port in (host_port, server.port, 0, 65536, -1, "8000/", "8000@127.0.0.1", f"127.0.0.1:{host_port}", "../49983", ""):
    status, body = ask("GET", "/", {"E2b-Sandbox-Id": mine.sandbox_id, "E2b-Sandbox-Port": str(port)})
    assert status >= 400, (port, status, body)
for host in (f"{host_port}-{mine.sandbox_id}.localhost", f"{server.port}-{mine.sandbox_id}.localhost", f"0-{mine.sandbox_id}.localhost"):
    status, body = ask("GET", "/healthz", {"Host": host})
    assert status >= 400, (host, status, body)
for target in (f"http://127.0.0.1:{host_port}/", "//127.0.0.1/", "/../../etc/passwd"):
    status, body = ask("GET", target, {"E2b-Sandbox-Id": mine.sandbox_id, "E2b-Sandbox-Port": "8000"})
    assert status >= 400 and b"root:" not in body, (target, status, body)
listener.settimeout(0)
try:
    listener.accept()
    raise SystemExit("the host was reached through the port proxy")
except BlockingIOError:
    pass

# From inside: neither the server nor the host nor a neighbour answers, by commands and by code.
theirs.commands.run("python3 -m http.server 8000", background=True)
reach = f"""
import socket
for address in (("127.0.0.1", {server.port}), ("127.0.0.1", {host_port}), ("127.0.0.1", 8000), ("10.0.2.2", {server.port}), ("169.254.169.254", 80)):
    with socket.socket() as s:
        s.settimeout(2)
        try:
            s.connect(address)
            print("reached", address)
        except OSError:
            pass
print("alone")
"""
mine.files.write("reach.py", reach)
assert mine.commands.run("python3 reach.py").stdout == "alone\n"
assert "E2B_API_KEY" not in mine.commands.run("env").stdout

# Uploads whose names lead out, in the name of a part.
for name in ("../../../../tmp/e2b-out", "/work/../../e2b-out", "~root/e2b-out", "a/../../../../../e2b-out"):
    body = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\nout\r\n--x--\r\n'.encode()
    headers = {"E2b-Sandbox-Id": mine.sandbox_id, "X-Access-Token": mine._envd_access_token, "Content-Type": "multipart/form-data; boundary=x"}
    ask("POST", "/files", headers, body)
for path in ("/tmp/e2b-out", "/e2b-out", "/root/e2b-out", "/home/e2b-out"):
    assert not os.path.exists(path), path
mine.kill()
theirs.kill(api_key=other)
print("done")
