"""The control plane."""
import time

from e2b import Sandbox, SandboxQuery, SandboxState
from e2b.exceptions import NotFoundException, SandboxException, SandboxNotFoundException


def until(what, true):
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.05)


first = Sandbox.create(timeout=120, metadata={"who": "a b&c=%"}, envs={"GREETING": "hi"})
assert first.is_running()
assert first.commands.run("echo $GREETING; pwd; id -un").stdout == "hi\n/home/user\nuser\n"
second = Sandbox.create("base", timeout=60)

# Found by any filter, newest first, page by page.
found = lambda **query: [one.sandbox_id for one in Sandbox.list(query=SandboxQuery(**query)).next_items()]
assert found(metadata={"who": "a b&c=%"}) == [first.sandbox_id]
assert found(metadata={"who": "other"}) == []
assert found(state=[SandboxState.RUNNING]) == [second.sandbox_id, first.sandbox_id]
assert found(state=[SandboxState.PAUSED]) == []
assert found(template="unknown") == []
assert found(started_after=second.get_info().started_at) == [second.sandbox_id]
pages = Sandbox.list(limit=1)
seen = []
while pages.has_next:
    seen += [one.sandbox_id for one in pages.next_items()]
assert seen == [second.sandbox_id, first.sandbox_id], seen

info = first.get_info()
assert info.metadata == {"who": "a b&c=%"} and info.state == SandboxState.RUNNING and info.template_id == "base"
before = info.end_at
Sandbox.connect(first.sandbox_id, timeout=10)
assert first.get_info().end_at == before, "connecting shortens nothing"
Sandbox.connect(first.sandbox_id, timeout=600)
assert first.get_info().end_at > before
metric = first.get_metrics()[0]
assert metric.cpu_count == 2 and metric.mem_total > 0 and metric.disk_total > 0

try:
    first.update_network({"deny_out": ["0.0.0.0/0"]})
    raise SystemExit("what is not done was said to be done")
except SandboxException as error:
    assert "settings" in str(error), error

# Time that is over ends it, and what runs in it hears so.
second.set_timeout(0)
until("its end", lambda: not second.is_running())
try:
    second.commands.run("true")
    raise SystemExit("a sandbox that has ended ran a command")
except SandboxException as error:
    assert "was not found" in str(error) or "end of life" in str(error), error

# Paused with its memory, then without.
running = first.commands.run("sleep 600", background=True)
first.files.write("kept", "words")
assert first.pause() is not False
assert not first.is_running() and first.get_info().state == SandboxState.PAUSED
assert first.pause() is False
first.connect(timeout=120)
assert first.is_running()
assert running.pid in [process.pid for process in first.commands.list()]
boot = first.files.read("/proc/sys/kernel/random/boot_id")
assert first.pause(keep_memory=False) is not False
first.connect(timeout=120)
assert first.files.read("kept") == "words"
assert running.pid not in [process.pid for process in first.commands.list()]
assert first.files.read("/proc/sys/kernel/random/boot_id") != boot

# Pausing in place of ending.
paused = Sandbox.create(timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": True})
paused.files.write("a", "b")
paused.set_timeout(0)
until("its pause", lambda: paused.get_info().state == SandboxState.PAUSED)
assert paused.files.read("a") == "b", "a request wakes it"
paused.kill()

# Snapshots are templates; copies are sandboxes of their own.
snapshot = first.create_snapshot(name="before")
assert snapshot.snapshot_id in [one.snapshot_id for one in Sandbox.list_snapshots(sandbox_id=first.sandbox_id).next_items()]
first.files.write("kept", "other")
again = Sandbox.create(snapshot.snapshot_id, timeout=60)
assert again.files.read("kept") == "words"
copies = first.fork(count=2)
assert len({copy.sandbox_id for copy in copies} | {first.sandbox_id}) == 3
copies[0].files.write("kept", "changed")
assert copies[1].files.read("kept") == first.files.read("kept") == "other"
assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False

for sandbox in [again, *copies, first]:
    assert sandbox.kill() is True
    assert sandbox.kill() is False
for ask in (lambda: first.get_info(), lambda: Sandbox.connect(first.sandbox_id), lambda: first.fork()):
    try:
        ask()
        raise SystemExit("a killed sandbox was found")
    except (NotFoundException, SandboxNotFoundException):
        pass
try:
    Sandbox.create("no-such-template")
    raise SystemExit("an unknown template was found")
except SandboxException as error:
    assert "not found" in str(error), error
assert found() == []
print("done")
