"""Calls that clients of every age have; with `code` as an argument also those of the code interpreter."""
import sys
import urllib.request
import uuid

import e2b
from e2b import CommandExitException, NotFoundException, Sandbox
from e2b.sandbox.commands.command_handle import PtySize

has_code = "code" in sys.argv[1:]
is_debug = "debug" in sys.argv[1:]
if has_code:
    from e2b_code_interpreter import Sandbox

who = str(uuid.uuid4())
sandbox = Sandbox.create(timeout=120, metadata={"who": who}, envs={"GIVEN": "word"})
other = Sandbox.create(timeout=120)
assert sandbox.sandbox_id != other.sandbox_id
info = sandbox.get_info()
assert info.metadata == {"who": who} and info.sandbox_id == sandbox.sandbox_id
assert sandbox.is_running()

assert sandbox.commands.run("echo $GIVEN; pwd; id -un").stdout == "word\n/home/user\nuser\n"
try:
    sandbox.commands.run("exit 3")
    raise SystemExit("a command that fails raises")
except CommandExitException as error:
    assert error.exit_code == 3
cat = sandbox.commands.run("cat", background=True, stdin=True)
sandbox.commands.send_stdin(cat.pid, "in\n")
assert cat.pid in [process.pid for process in sandbox.commands.list()]
assert sandbox.commands.kill(cat.pid) is True
terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
sandbox.pty.resize(terminal.pid, PtySize(rows=30, cols=100))
sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
said = []
terminal.wait(on_pty=lambda data: said.append(data.decode()))
assert "30 100" in "".join(said), said

sandbox.files.write("folder/a", "words")
other.files.write("folder/a", "others")
assert sandbox.files.read("folder/a") == "words" and other.files.read("folder/a") == "others"
assert sandbox.files.read("folder/a", format="bytes") == b"words"
assert [entry.name for entry in sandbox.files.list("folder")] == ["a"]
assert sandbox.files.get_info("folder/a").size == 5
assert sandbox.files.exists("folder/a") and not sandbox.files.exists("folder/b")
sandbox.files.rename("folder/a", "folder/b")
sandbox.files.make_dir("watched")
watcher = sandbox.files.watch_dir("watched")
sandbox.files.write("watched/x", "1")
events = []
while not any(event.name == "x" for event in events):
    events += watcher.get_new_events()
watcher.stop()
sandbox.files.remove("folder/b")
try:
    sandbox.files.read("folder/b")
    raise SystemExit("what was removed was read")
except NotFoundException:
    pass
sandbox.files.write("signed", "by its address")
assert urllib.request.urlopen(sandbox.download_url("signed", "user")).read() == b"by its address"

if has_code:
    assert sandbox.run_code("x = 6; x * 7").text == "42"
    assert other.run_code("x").error.name == "NameError", "each has its own"
    assert sandbox.run_code("import os; os.environ['GIVEN'] + str(x)").text == "word6"
    context = sandbox.create_code_context(cwd="/tmp")
    assert sandbox.run_code("import os; os.getcwd()", context=context).text == "/tmp"

if not is_debug:
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.files.read("signed") == "by its address"
    found = Sandbox.list(query=e2b.SandboxQuery(metadata={"who": who})).next_items()
    assert [one.sandbox_id for one in found] == [sandbox.sandbox_id]
    sandbox.set_timeout(300)
    assert sandbox.get_info().end_at > info.end_at
    pause = getattr(sandbox, "pause", None) or sandbox.beta_pause
    pause()
    assert not sandbox.is_running()
    Sandbox.connect(sandbox.sandbox_id)
    assert sandbox.files.read("signed") == "by its address"
    assert sandbox.kill() is True and other.kill() is True
    assert not sandbox.is_running()
print("done")
