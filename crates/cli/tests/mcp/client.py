"""The official client against our tools: client.py MODE stdio PROGRAM ARGS... or client.py MODE http URL KEY.

Structured results are held to the output schemas by the client itself. A claim that does not hold ends it with a traceback.
"""

import base64
import os
import sys
import time

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

MARK = f"mcp-mark-{os.getpid()}"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SESSION = "create run exec write_file read_file ls snapshot rollback fork kill list".split()


def processes_with(mark):
    """Processes of this host whose command line holds `mark`, apart from us and who started us."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if any(mark.encode() in word for word in words) and not words[0].endswith(b"saggar"):
            found.append(pid)
    return found


async def eventually(what, done):
    start = time.monotonic()
    while not await done():
        assert time.monotonic() - start < 30, f"{what} did not happen"
        await anyio.sleep(0.02)


async def ok(client, tool, **arguments):
    """A call that must succeed; its structured result."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, (tool, result)
    assert result.content[0].type == "text" and result.content[0].text, (tool, result)
    return result.structured_content


async def refused(client, tool, arguments, code):
    """A call that must be told what is wrong with it."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, (tool, str(arguments)[:200], result)
    error = result.structured_content["error"]
    assert error["code"] == code and error["message"] and error["hint"], error
    assert error["message"] in result.content[0].text


async def listing(client):
    tools = (await client.list_tools()).tools
    names = [tool.name for tool in tools]
    assert names == ["run", "exec", "check", "judge"] + [f"session_{word}" for word in SESSION], names
    for tool in tools:
        assert tool.title and tool.description and tool.output_schema, tool.name
        assert tool.input_schema["additionalProperties"] is False, tool.name
        assert None not in (tool.annotations.read_only_hint, tool.annotations.destructive_hint), tool.name
    by_name = {tool.name: tool.annotations for tool in tools}
    assert by_name["check"].read_only_hint and not by_name["run"].read_only_hint
    assert by_name["session_kill"].destructive_hint and not by_name["run"].destructive_hint


async def runs(client):
    result = await ok(client, "run", code="import sys\nprint(sys.stdin.read() + sys.argv[1])", stdin="a", args=["b"])
    assert (result["ok"], result["stdout"], result["language"]) == (True, "ab\n", "python"), result
    # A program that fails is an answer.
    result = await ok(client, "run", code="import sys\nsys.exit(3)")
    assert result["outcome"] == {"kind": "exited", "code": 3}
    result = await ok(client, "run", code="1/0")
    assert result["exception"]["type"] == "ZeroDivisionError" and result["feedback"]
    result = await ok(client, "run", code="while True: pass", limits={"wall_ms": 300})
    assert result["outcome"] == {"kind": "limit_exceeded", "limit": "wall"}
    result = await ok(client, "run", code="import os; os.system('rm -rf /')", policy="strict")
    assert result["outcome"]["kind"] == "refused" and result["findings"]
    files = [{"path": "in.txt", "text": "x"}]
    result = await ok(client, "exec", argv=["cp", "in.txt", "out.txt"], files=files, collect=["out.txt"])
    assert [(file["path"], file["base64"]) for file in result["files"]] == [("out.txt", "eA==")], result
    result = await ok(client, "check", code="import os\nos.system('id')")
    assert result["policy"] == "guard" and result["findings"], result
    result = await ok(client, "check", code="def (")
    assert not result["ok"] and result["syntax_error"]["line"] == 1, result
    cases = [{"args": [1, 2], "expected": 3}, {"args": [1, 1], "expected": 3}]
    result = await ok(client, "judge", code="def add(a, b): return a + b", entry="add", cases=cases)
    assert [case["verdict"] for case in result["cases"]] == ["pass", "wrong_answer"] and result["score"] == 0.5, result


async def sessions(client):
    session = (await ok(client, "session_create", ttl_ms=600000))["id"]
    result = await ok(client, "session_run", session=session, code="x = 20")
    result = await ok(client, "session_run", session=session, code="x + 1")
    assert result["results"] == [{"text/plain": "21"}] and result["main_result"] == 0, result
    entry = await ok(client, "session_write_file", session=session, path="a/b.txt", text="caf\u00e9 " * 1000)
    assert (entry["path"], entry["type"], entry["bytes"]) == ("/work/a/b.txt", "file", 6000), entry
    part = await ok(client, "session_read_file", session=session, path="a/b.txt", offset=6, most_bytes=4)
    assert (part["text"], part["truncated"], part["bytes"]) == ("caf", True, 6000), part
    binary = base64.b64encode(b"\xff\x00").decode()
    await ok(client, "session_write_file", session=session, path="c.bin", base64=binary)
    assert (await ok(client, "session_read_file", session=session, path="/work/c.bin"))["base64"] == binary
    result = await ok(client, "session_exec", session=session, argv=["bash", "-c", "cat > d; wc -c < a/b.txt"], stdin="s")
    assert result["stdout"] == "6000\n", result
    listed = await ok(client, "session_ls", session=session, depth=2)
    assert [entry["path"] for entry in listed["entries"]] == ["/work/a", "/work/a/b.txt", "/work/c.bin", "/work/d"], listed
    kept = await ok(client, "session_snapshot", session=session, name=f"kept-{MARK}")
    await ok(client, "session_exec", session=session, argv=["rm", "-r", "a"])
    await ok(client, "session_rollback", session=session, snapshot=kept["id"])
    assert (await ok(client, "session_read_file", session=session, path="a/b.txt"))["bytes"] == 6000
    copies = (await ok(client, "session_fork", session=session, count=2))["sessions"]
    assert (await ok(client, "session_exec", session=copies[1]["id"], argv=["cat", "d"]))["stdout"] == "s"
    living = [info["id"] for info in (await ok(client, "session_list"))["sessions"]]
    assert {session, copies[0]["id"], copies[1]["id"]} <= set(living), living
    for id in [session, copies[0]["id"], copies[1]["id"]]:
        assert (await ok(client, "session_kill", session=id)) == {"id": id, "killed": True}
    await refused(client, "session_run", {"session": session, "code": "x"}, "not_found")


async def images(client):
    session = (await ok(client, "session_create"))["id"]
    code = f"class Plot:\n    def _repr_png_(self): return {PNG!r}\nPlot()"
    result = await client.call_tool("session_run", {"session": session, "code": code})
    assert not result.is_error, result
    text, image = result.content
    assert (text.type, image.type, image.mime_type) == ("text", "image", "image/png")
    assert base64.b64decode(image.data) == PNG
    # No model reads it as text.
    assert result.structured_content["results"][0]["image/png"] == {"content": 1}, result.structured_content
    await ok(client, "session_write_file", session=session, path="p.png", base64=base64.b64encode(PNG).decode())
    result = await client.call_tool("session_read_file", {"session": session, "path": "p.png"})
    assert base64.b64decode(result.content[1].data) == PNG and "base64" not in result.structured_content
    await ok(client, "session_kill", session=session)


async def progress(client):
    """Each step of the program waits for what we do when we hear of the one before it."""
    session = (await ok(client, "session_create"))["id"]
    script = "for i in 1 2 3; do echo step $i; until [ -e go$i ]; do sleep 0.01; done; done"
    heard = []

    async def hear(done, total, message):
        heard.append(done)
        if message and message.startswith("step "):
            await ok(client, "session_write_file", session=session, path=f"go{message[5:]}", text="")

    result = await client.call_tool("session_exec", {"session": session, "argv": ["bash", "-c", script]}, progress_callback=hear)
    assert result.structured_content["stdout"] == "step 1\nstep 2\nstep 3\n", result
    assert len(heard) >= 3 and heard == sorted(heard), heard
    await ok(client, "session_kill", session=session)


async def cancellation(client):
    """What was called is killed, whatever it was, and the next call works."""
    session = (await ok(client, "session_create"))["id"]
    shell = ["bash", "-c", f"echo begun; sleep 600; : {MARK}"]
    python = f"print('begun', flush=True)\nimport subprocess\nsubprocess.run(['bash', '-c', 'echo begun; sleep 600; : {MARK}'])"
    task = {"code": python, "cases": [{"stdin": "", "stdout": ""}]}
    for tool, arguments in [
        ("run", {"code": python}),
        ("exec", {"argv": shell}),
        ("judge", task),
        ("session_exec", {"session": session, "argv": shell}),
        ("session_run", {"session": session, "code": python}),
    ]:

        async def call():
            await client.call_tool(tool, arguments)

        async def is_running():
            return bool(processes_with(MARK))

        async def is_gone():
            return not processes_with(MARK)

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await eventually(f"{tool} begins", is_running)
            group.cancel_scope.cancel()
        await eventually(f"{tool} ends", is_gone)
    await ok(client, "session_kill", session=session)


async def hostile(client):
    for tool, arguments, code in [
        ("run", {}, "invalid_request"),
        ("run", {"code": 7}, "invalid_request"),
        ("run", {"code": "1", "limits": {"memory_mb": "lots"}}, "invalid_request"),
        ("run", {"code": "1", "limits": {"memory_mb": -1}}, "invalid_limit"),
        ("run", {"code": "1", "limits": {"wall_ms": 1e300}}, "invalid_limit"),
        ("run", {"code": "1", "nettwork": "open"}, "invalid_request"),
        ("run", {"code": "1", "accept_missing": ["seccomp"]}, "invalid_request"),
        ("run", {"code": "1", "argv": ["id"]}, "invalid_request"),
        ("run", {"code": "1", "language": "cobol"}, "unknown_language"),
        ("run", {"code": "1", "files": [{"path": "../x", "text": ""}]}, "invalid_request"),
        ("run", {"code": "1", "files": [{"path": "a\0b", "text": ""}]}, "invalid_request"),
        ("run", {"code": "1", "files": [{"path": "x", "host": "/etc/shadow"}]}, "invalid_request"),
        ("run", {"code": "1", "env": {"A\0B": "x"}}, "invalid_request"),
        ("exec", {"argv": []}, "invalid_request"),
        ("exec", {"argv": ["a\0b"]}, "invalid_request"),
        ("judge", {"code": "x", "cases": [{"args": [1]}]}, "invalid_request"),
        ("session_exec", {"session": 7, "argv": ["id"]}, "invalid_request"),
        ("session_exec", {"session": "ses_" + "0" * 32, "argv": ["id"]}, "not_found"),
        ("session_exec", {"session": "../../x\0", "argv": ["id"]}, "not_found"),
        ("session_kill", {"session": "x" * 100_000}, "not_found"),
        ("session_list", {"all": True}, "invalid_request"),
        ("session_create", {"limits": {"memory_mb": 1e30}}, "invalid_limit"),
    ]:
        await refused(client, tool, arguments, code)
    session = (await ok(client, "session_create"))["id"]
    for arguments, code in [
        ({"path": "x"}, "invalid_request"),
        ({"path": "x", "text": "a", "base64": "YQ=="}, "invalid_request"),
        ({"path": "x", "base64": "?"}, "invalid_request"),
        ({"path": "a\0b", "text": ""}, "invalid_request"),
        ({"path": "x" * 10_000, "text": ""}, "invalid_request"),
    ]:
        await refused(client, "session_write_file", {"session": session, **arguments}, code)
    # Nothing above the session's own root is there.
    await refused(client, "session_read_file", {"session": session, "path": "/../../../etc/shadow"}, "not_found")
    await ok(client, "session_exec", session=session, argv=["ln", "-s", "/proc/1/root/etc/shadow", "link"])
    result = await client.call_tool("session_read_file", {"session": session, "path": "link"})
    assert result.is_error, result
    await ok(client, "session_kill", session=session)
    for name in ["run ", "", "x" * 10_000, "session_shell"]:
        try:
            await client.call_tool(name, {})
        except MCPError:
            continue
        raise AssertionError(name)
    # Null bytes in code are the interpreter's business; a large program is no trouble.
    assert not (await ok(client, "run", code="print(1)\0"))["ok"]
    assert (await ok(client, "run", code="#" * (5 << 20) + "\nprint(2)"))["stdout"] == "2\n"
    result = await ok(client, "run", code="print('x' * 10_000_000)")
    assert result["stdout_truncated"] and result["stdout_bytes"] == 10_000_001 and len(result["stdout"]) < 200_000


async def main(mode, transport, *words):
    if transport == "stdio":
        names = ("SAGGAR_HOME", "SAGGAR_CONFIG", "PATH", "HOME")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        server = StdioServerParameters(command=words[0], args=list(words[1:]), env=environment)
    else:
        url, key = words
        headers = {"Authorization": f"Bearer {key}"}
        server = streamable_http_client(url, http_client=httpx2.AsyncClient(headers=headers, timeout=60))
    async with Client(server, mode=mode) as client:
        assert client.server_info.name == "saggar" and "sandbox" in client.instructions
        for scenario in [listing, runs, sessions, images, progress, cancellation, hostile]:
            start = time.monotonic()
            await scenario(client)
            print(f"{scenario.__name__}: {time.monotonic() - start:.1f} s", flush=True)


anyio.run(main, *sys.argv[1:])
