"""The same calls by the clients that do not wait: other code of theirs, and other requests."""
import asyncio

from e2b import AsyncSandbox as Plain, CommandExitException, FileNotFoundException, SandboxNotFoundException
from e2b.sandbox.commands.command_handle import PtySize
from e2b.sandbox.filesystem.filesystem import WriteEntry
from e2b_code_interpreter import AsyncSandbox


async def control_plane():
    first = await Plain.create(timeout=120, metadata={"a": "b"})
    second = await Plain.create(timeout=120)
    assert await first.is_running()
    assert first.sandbox_id in [one.sandbox_id for one in await Plain.list().next_items()]
    assert (await first.get_info()).metadata == {"a": "b"}
    await first.set_timeout(300)
    assert (await first.get_metrics())[0].mem_total > 0
    await first.files.write("kept", "words")
    assert await first.pause() is not False
    await first.connect(timeout=120)
    assert await first.files.read("kept") == "words"
    snapshot = await first.create_snapshot()
    assert snapshot.snapshot_id in [one.snapshot_id for one in await first.list_snapshots().next_items()]
    copy = await Plain.create(snapshot.snapshot_id, timeout=60)
    (fork,) = await first.fork()
    assert await copy.files.read("kept") == await fork.files.read("kept") == "words"
    assert await Plain.delete_snapshot(snapshot.snapshot_id) is True
    for sandbox in (second, copy, fork, first):
        assert await sandbox.kill() is True
    try:
        await Plain.connect(first.sandbox_id)
        raise SystemExit("a killed sandbox was found")
    except SandboxNotFoundException:
        pass


async def commands(sandbox):
    run, pty = sandbox.commands.run, sandbox.pty
    done = await run("echo $A; pwd; id -un", envs={"A": "b"}, cwd="/tmp", user="root")
    assert done.stdout == "b\n/tmp\nroot\n"
    cat = await run("cat", background=True, stdin=True)
    assert cat.pid in [process.pid for process in await sandbox.commands.list()]
    other = await sandbox.commands.connect(cat.pid)
    await sandbox.commands.send_stdin(cat.pid, "one\n")
    await cat.close_stdin()
    assert (await cat.wait()).stdout == "one\n" and (await other.wait()).exit_code == 0
    sleep = await run("sleep 600", background=True)
    assert await sandbox.commands.kill(sleep.pid) is True
    try:
        await run("exit 3")
        raise SystemExit("a command that fails raises")
    except CommandExitException as error:
        assert error.exit_code == 3
    said = []
    terminal = await pty.create(PtySize(rows=24, cols=80), on_data=lambda data: said.append(data.decode()))
    await pty.resize(terminal.pid, PtySize(rows=30, cols=100))
    await pty.send_stdin(terminal.pid, b"stty size; exit\n")
    await terminal.wait()
    assert "30 100" in "".join(said), said
    terminal = await pty.create(PtySize(rows=24, cols=80), on_data=lambda data: None)
    again = await pty.connect(terminal.pid, on_data=lambda data: None)
    assert await pty.kill(terminal.pid) is True
    await again.disconnect()


async def files(sandbox):
    files = sandbox.files
    await files.write("a/b", "1", metadata={"author": "me"})
    assert (await files.get_info("a/b")).metadata == {"author": "me"}
    await files.write_files([WriteEntry(path="a/c", data="2"), WriteEntry(path="a/d", data=b"3")])
    assert [one.name for one in await files.list("a")] == ["b", "c", "d"]
    assert await files.read("a/d", format="bytes") == b"3"
    assert b"".join([piece async for piece in await files.read("a/d", format="stream")]) == b"3"
    await files.rename("a/d", "a/e")
    assert await files.make_dir("a/f") is True
    await files.remove("a/e")
    assert await files.exists("a/e") is False
    try:
        await files.read("a/e")
        raise SystemExit("what is not there was read")
    except FileNotFoundException:
        pass
    seen = asyncio.Event()
    watch = await files.watch_dir("a", on_event=lambda event: event.name == "g" and seen.set())
    await files.write("a/g", "x")
    await asyncio.wait_for(seen.wait(), 30)
    await watch.stop()
    await sandbox.git.init("repository", initial_branch="main")
    assert (await sandbox.git.status("repository")).current_branch == "main"


async def code(sandbox):
    assert (await sandbox.run_code("x = 6; x * 7")).text == "42"
    context = await sandbox.create_code_context(cwd="/tmp", language="python")
    assert (await sandbox.run_code("import os; os.getcwd()", context=context)).text == "/tmp"
    await sandbox.restart_code_context(context)
    assert context.id in [one.id for one in await sandbox.list_code_contexts()]
    await sandbox.remove_code_context(context)
    # Many at once are answered in the order of their context, and not mixed.
    done = await asyncio.gather(*(sandbox.run_code(f"print({number}); {number}") for number in range(8)))
    assert [(one.text, one.logs.stdout) for one in done] == [(str(n), [f"{n}\n"]) for n in range(8)]


async def main():
    await control_plane()
    sandbox = await AsyncSandbox.create(timeout=300)
    await commands(sandbox)
    await files(sandbox)
    await code(sandbox)
    await sandbox.kill()


asyncio.run(main())
print("done")
