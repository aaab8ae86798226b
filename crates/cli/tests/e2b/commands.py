"""Commands and terminals."""
import threading

from e2b import AuthenticationException, CommandExitException, InvalidArgumentException, NotFoundException, Sandbox, TimeoutException
from e2b.sandbox.commands.command_handle import PtySize

sandbox = Sandbox.create(timeout=300)
run = sandbox.commands.run

assert run("echo out; echo err >&2", envs={"A": "b"}).stderr == "err\n"
assert run("echo $A", envs={"A": "b"}).stdout == "b\n"
assert run("pwd", cwd="/tmp").stdout == "/tmp\n"
assert run("echo $A").stdout == "\n", "what one command was given is not the next one's"
try:
    run("echo some; exit 3")
    raise SystemExit("a command that fails raises")
except CommandExitException as error:
    assert (error.exit_code, error.stdout) == (3, "some\n")
try:
    run("true", cwd="/nowhere")
    raise SystemExit("a folder that is not there")
except InvalidArgumentException as error:
    assert "/nowhere" in str(error)
# Two users; the first may become the second, and neither is anybody outside.
assert run("id -un; echo $HOME; pwd", user="root").stdout == "root\n/root\n/root\n"
assert run("sudo id -un").stdout == "root\n"
assert run("touch mine; stat -c %U mine").stdout == "user\n"
try:
    run("true", user="nobody-here")
    raise SystemExit("somebody who is not there ran a command")
except AuthenticationException:
    pass
heard = []
run("printf 1; printf 2 >&2", on_stdout=heard.append, on_stderr=heard.append)
assert sorted(heard) == ["1", "2"]
size = 20_000_000
assert len(run(f"head -c {size} /dev/zero | tr '\\0' x").stdout) == size, "nothing is lost, however much there is"
assert run("printf '%s' " + "x" * 100_000).stdout == "x" * 100_000

# In the background: found, written to, listened to, killed.
cat = run("cat", background=True, stdin=True)
assert cat.pid in [process.pid for process in sandbox.commands.list()]
sandbox.commands.send_stdin(cat.pid, "one\n")
other = sandbox.commands.connect(cat.pid)
cat.send_stdin(b"two\n")
cat.close_stdin()
assert cat.wait().stdout == "one\ntwo\n"
assert other.wait().exit_code == 0
cat = run("cat", background=True, stdin=True)
sandbox.commands.stream_input(cat.pid, iter([b"in ", b"pieces\n"]))
sandbox.commands.close_stdin(cat.pid)
assert cat.wait().stdout == "in pieces\n"
sleep = run("sleep 600", background=True)
assert run(f"kill -0 {sleep.pid}").exit_code == 0, "its number is the one that is seen inside"
assert sleep.kill() is True
try:
    run(f"kill -0 {sleep.pid}")
    raise SystemExit("it was killed and is there")
except CommandExitException:
    pass
try:
    sleep.wait()
    raise SystemExit("a killed command did not raise")
except CommandExitException as error:
    assert error.exit_code != 0
assert sandbox.commands.kill(999_999) is False
try:
    sandbox.commands.connect(999_999)
    raise SystemExit("there is no such process")
except NotFoundException:
    pass
left = run("sleep 600", background=True)
left.disconnect()
assert left.pid in [process.pid for process in sandbox.commands.list()], "who goes away leaves it alone"
try:
    run("sleep 600", timeout=1)
    raise SystemExit("a command without time did not raise")
except TimeoutException:
    pass

# Terminals.
terminal = sandbox.pty.create(PtySize(rows=24, cols=80), envs={"A": "in a terminal"}, cwd="/tmp")
sandbox.pty.resize(terminal.pid, PtySize(rows=30, cols=100))
sandbox.pty.send_stdin(terminal.pid, b"stty size; echo $A; pwd; exit 0\n")
said = []
assert terminal.wait(on_pty=lambda data: said.append(data.decode())).exit_code == 0
said = "".join(said)
assert "30 100" in said and "in a terminal" in said and "/tmp" in said, said
terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
terminal.disconnect()
again = sandbox.pty.connect(terminal.pid)
sandbox.pty.stream_input(terminal.pid, iter([b"echo by pieces:$((6 * 7)); ", b"exit 5\n"]))
said = []
try:
    again.wait(on_pty=lambda data: said.append(data.decode()))
    raise SystemExit("a terminal that ends badly raises")
except CommandExitException as error:
    assert error.exit_code == 5 and "by pieces:42" in "".join(said), (error, said)
terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
assert sandbox.pty.kill(terminal.pid) is True
assert sandbox.pty.kill(999_999) is False

# Whoever listens when it ends is told why.
waiting = run("sleep 600", background=True)
threading.Timer(0.2, sandbox.kill).start()
try:
    waiting.wait()
    raise SystemExit("the sandbox ended and nobody was told")
except TimeoutException as error:
    assert "killed or reached its end of life" in str(error), error
print("done")
