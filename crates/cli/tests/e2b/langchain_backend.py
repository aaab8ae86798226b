"""langchain-e2b, unchanged: the backend that Deep Agents work in, waiting and not."""
import asyncio

import e2b
from langchain_e2b import AsyncE2BSandbox, E2BSandbox

sandbox = e2b.Sandbox.create(timeout=300)
backend = E2BSandbox(sandbox=sandbox)
assert backend.id == sandbox.sandbox_id
done = backend.execute("echo out; echo err >&2; exit 3")
assert done.exit_code == 3 and "out" in done.output and "err" in done.output, done
assert backend.write("/home/user/a.py", "one = 1\ntwo = 2\n").error is None
assert "one = 1" in backend.read("/home/user/a.py").file_data["content"]
assert backend.edit("/home/user/a.py", "two = 2", "two = 22").error is None
assert backend.execute("cat /home/user/a.py").output == "one = 1\ntwo = 22\n"
assert backend.read("/home/user/nothing").error
assert [one["path"] for one in backend.ls("/home/user").entries] == ["/home/user/a.py"]
assert [match["line"] for match in backend.grep("two", path="/home/user").matches] == [2]
assert any(one["path"].endswith("a.py") for one in backend.glob("*.py", path="/home/user").matches)
(up,) = backend.upload_files([("/home/user/up.bin", bytes(range(256)))])
assert up.error is None
(down, missing) = backend.download_files(["/home/user/up.bin", "/home/user/none"])
assert down.content == bytes(range(256)) and missing.error, (down, missing)
slow = backend.execute("sleep 60", timeout=1)
assert slow.exit_code == 124, slow


async def waiting():
    other = AsyncE2BSandbox(sandbox=await e2b.AsyncSandbox.connect(sandbox.sandbox_id))
    assert (await other.aexecute("echo hi")).output == "hi\n"
    assert (await other.aread("/home/user/a.py")).error is None


asyncio.run(waiting())
sandbox.kill()
print("done")
