"""Programs that listen inside a sandbox."""
import http.client
import json
import os
import time
import urllib.parse

from e2b import Sandbox

server = urllib.parse.urlparse(os.environ["E2B_API_URL"])
sandbox = Sandbox.create(timeout=120)
echo = """
import http.server
class Echo(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Seen", ",".join(sorted(name.lower() for name in self.headers)))
        self.send_header("X-Path", self.path)
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Echo).serve_forever()
"""
sandbox.files.write("echo.py", echo)
sandbox.commands.run("python3 echo.py", background=True)


def ask(headers, body=b"", path="/a?b=c"):
    connection = http.client.HTTPConnection(server.hostname, server.port)
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


to = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "8000"}
end = time.monotonic() + 30
while ask(to)[0] == 502:
    assert time.monotonic() < end
    time.sleep(0.05)
body = os.urandom(3_000_000)
secret = {"X-API-Key": os.environ["E2B_API_KEY"], "X-Access-Token": sandbox._envd_access_token, "X-Own": "1"}
status, headers, back = ask({**to, **secret}, body)
assert status == 200 and back == body and headers["x-path"] == "/a?b=c"
seen = headers["x-seen"].split(",")
assert "x-own" in seen and not {"x-api-key", "x-access-token", "e2b-sandbox-id"} & set(seen), seen
# By name, as browsers find it.
assert sandbox.get_host(8000) == f"8000-{sandbox.sandbox_id}.localhost:{server.port}"
assert ask({"Host": sandbox.get_host(8000)}, b"named")[2] == b"named"
# Nobody listens on the others, and the host's own are not there.
for port in (8001, server.port):
    status, _, back = ask({**to, "E2b-Sandbox-Port": str(port)})
    assert status == 502 and json.loads(back)["message"] == "The sandbox is running but port is not open", (port, back)
private = Sandbox.create(timeout=60, network={"allow_public_traffic": False})
closed = {"E2b-Sandbox-Id": private.sandbox_id, "E2b-Sandbox-Port": "8000"}
assert ask(closed)[0] == 403
assert ask({**closed, "E2B-Traffic-Access-Token": "wrong"})[0] == 403
assert ask({**closed, "E2B-Traffic-Access-Token": private.traffic_access_token})[0] == 502, "nobody listens"
private.kill()
sandbox.kill()
assert ask(to)[0] == 502
print("done")
