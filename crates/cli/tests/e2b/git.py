"""Git helpers, which are commands of the client's own making."""
from e2b import Sandbox

sandbox = Sandbox.create(timeout=120)
git, files = sandbox.git, sandbox.files

git.init("one", initial_branch="main")
git.configure_user("me", "me@example.com")
assert git.get_config("user.name", scope="global") == "me"
git.set_config("pull.rebase", "false")
assert git.get_config("pull.rebase") == "false"
files.write("one/a", "1\n")
assert git.status("one").has_untracked
git.add("one", files=["a"])
assert git.status("one").has_staged
git.reset("one")
assert not git.status("one").has_staged
git.add("one")
git.commit("one", "first")
assert git.status("one").is_clean and git.status("one").current_branch == "main"
files.write("one/a", "changed\n")
git.restore("one", paths=["a"])
assert files.read("one/a") == "1\n"

git.create_branch("one", "side")
assert git.branches("one").current_branch == "side"
git.checkout_branch("one", "main")
assert sorted(git.branches("one").branches) == ["main", "side"]
git.delete_branch("one", "side", force=True)
assert git.branches("one").branches == ["main"]

# To another one and back, by a path in the sandbox.
git.init("far.git", bare=True, initial_branch="main")
git.remote_add("one", "origin", "/home/user/far.git")
assert git.remote_get("one", "origin") == "/home/user/far.git"
assert git.remote_get("one", "nobody") is None
git.push("one", remote="origin", branch="main", set_upstream=True)
git.clone("/home/user/far.git", path="two")
files.write("two/b", "2\n")
git.add("two")
git.commit("two", "second", author_name="you", author_email="you@example.com")
git.push("two")
git.pull("one")
assert files.read("one/b") == "2\n"

git.dangerously_authenticate("me", "word", host="git.example", protocol="https")
assert "me:word@git.example" in files.read("/home/user/.git-credentials")
sandbox.kill()
print("done")
