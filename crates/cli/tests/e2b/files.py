"""Files, watched folders, signed addresses."""
import asyncio
import io
import json
import time
import urllib.error
import urllib.parse
import urllib.request

from e2b import AsyncSandbox, FileNotFoundException, FilesystemEventType, FileType, InvalidArgumentException, Sandbox
from e2b.exceptions import SandboxException
from e2b.sandbox.filesystem.filesystem import WriteEntry

sandbox = Sandbox.create(timeout=300)
files = sandbox.files

info = files.write("new folder/ä.txt", "words\n")
assert info.path == "/home/user/new folder/ä.txt" and info.type == FileType.FILE
assert files.read("new folder/ä.txt") == "words\n"
assert files.read("/home/user/new folder/ä.txt", format="bytes") == b"words\n"
found = files.get_info("new folder/ä.txt")
assert (found.mode, found.permissions, found.owner, found.group, found.size) == (0o644, "-rw-r--r--", "user", "user", 6)
assert sandbox.commands.run("cat 'new folder/ä.txt'").stdout == "words\n"
binary = bytes(range(256)) * 5000
for options in ({}, {"gzip": True}, {"use_octet_stream": True}, {"use_octet_stream": True, "gzip": True}):
    files.write("binary", io.BytesIO(binary), **options)
    assert files.read("binary", format="bytes") == binary, options
    assert files.read("binary", format="bytes", gzip=True) == binary, options
    assert b"".join(files.read("binary", format="stream")) == binary, options
many = [WriteEntry(path=f"many/{number}", data=str(number)) for number in range(20)]
assert [one.path for one in files.write_files(many)] == [f"/home/user/many/{number}" for number in range(20)]
assert files.read("many/19") == "19"
files.write("many/19", "")
assert files.read("many/19") == ""

# Words attached to files.
assert files.write("noted", "x", metadata={"author": "a"}).metadata == {"author": "a"}
assert files.get_info("noted").metadata == {"author": "a"}
assert {one.name: one.metadata for one in files.list(".")}["noted"] == {"author": "a"}
assert files.rename("noted", "moved/away").metadata == {"author": "a"}
assert files.write("moved/away", "y").metadata is None and files.get_info("moved/away").metadata is None

# Folders and links.
assert files.make_dir("deep/er") is True and files.make_dir("deep/er") is False
try:
    files.make_dir("binary")
    raise SystemExit("a folder in the place of a file")
except InvalidArgumentException:
    pass
files.write("deep/er/f", "1")
assert [(one.name, one.type) for one in files.list("deep", depth=2)] == [("er", FileType.DIR), ("f", FileType.FILE)]
sandbox.commands.run("ln -s er/f deep/link; ln -s nowhere deep/broken; ln -s /etc/passwd deep/out")
link = files.get_info("deep/link")
assert (link.type, link.symlink_target) == (FileType.FILE, "/home/user/deep/er/f")
assert "broken" not in [one.name for one in files.list("deep") if one.type]
assert "user:x:1000" in files.read("deep/out"), "links end inside"
assert files.exists("deep") is True and files.exists("nothing") is False
files.remove("deep")
files.remove("deep")
assert files.exists("deep") is False
for ask in (files.read, files.get_info, files.list, lambda path: files.rename(path, "x"), files.watch_dir):
    try:
        ask("nothing")
        raise SystemExit("what is not there was found")
    except FileNotFoundException:
        pass
for path in ("/etc/passwd", "/usr/bin/x", "../../../etc/shadow"):
    try:
        files.write(path, "x")
        raise SystemExit(f"{path} could be written")
    except SandboxException:
        pass
files.write("/tmp/../tmp/roundabout", "x")
assert files.exists("/tmp/roundabout")

# What happens in a folder, fetched and told.
files.make_dir("watched")
watcher = files.watch_dir("watched", recursive=True, include_entry=True)


def until(kind, name):
    """All events up to this one, without what is told twice in a row."""
    events, end = [], time.monotonic() + 30
    while (kind, name) not in [(event.type, event.name) for event in events]:
        assert time.monotonic() < end, events
        new = watcher.get_new_events()
        events += [one for before, one in zip([*events[-1:], *new] if events else [None, *new], new) if one != before]
    return events


files.write("watched/one", "x")
events = until(FilesystemEventType.WRITE, "one")
assert [event.type.name for event in events] == ["CREATE", "CHMOD", "WRITE"], events
assert events[0].name == "one" and events[0].entry.path == "/home/user/watched/one"
# Who was told of a new folder is told of what happens in it.
files.make_dir("watched/below")
until(FilesystemEventType.CREATE, "below")
files.write("watched/below/two", "x")
until(FilesystemEventType.WRITE, "below/two")
files.remove("watched/one")
until(FilesystemEventType.REMOVE, "one")
watcher.stop()


async def streamed():
    again = await AsyncSandbox.connect(sandbox.sandbox_id)
    seen = asyncio.Event()
    handle = await again.files.watch_dir("watched", on_event=lambda event: event.name == "three" and seen.set())
    await again.files.write("watched/three", "x")
    await asyncio.wait_for(seen.wait(), 30)
    await handle.stop()


asyncio.run(streamed())

# Addresses that carry their own right, for one file and one act.
fetch = lambda url: urllib.request.urlopen(url).read()
url = sandbox.download_url("binary", "user")
assert fetch(url) == binary and fetch(sandbox.download_url("binary", "user", 60)) == binary


def refused(url, message=None):
    try:
        fetch(url)
        raise SystemExit(f"{url} was answered")
    except urllib.error.HTTPError as error:
        assert error.code == 401, error
        body = json.load(error)
        assert message is None or body == {"code": 401, "message": message}, body


refused(sandbox.download_url("binary", "user", -60), "signature is already expired")
refused(url.replace("binary", "noted"))
refused(url + "0")
upload = sandbox.upload_url("signed", "user")
boundary = "xyz"
body = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nby form\r\n--{boundary}--\r\n'
request = urllib.request.Request(upload, body.encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"})
urllib.request.urlopen(request)
assert files.read("signed") == "by form"

# Git, which is commands.
git = sandbox.git
git.init("repository")
git.configure_user("me", "me@example.com", path="repository", scope="local")
files.write("repository/a", "1")
git.add("repository")
git.commit("repository", "first")
assert git.status("repository").is_clean
sandbox.kill()
print("done")
