"""Templates as they are built, on a server with `[e2b] network = "open"`: what E2B's users expect to find in a sandbox, and to be
able to do there. It needs a mirror of the host's distribution and Python's index, so scripts/e2b-clients runs it."""
import time

from e2b import Sandbox as Plain
from e2b_code_interpreter import Sandbox


def until_built(kind, template):
    """The first sandboxes of a template may have the host's own programs, for as long as it is built."""
    deadline = time.monotonic() + 900
    while True:
        box = kind.create(template, timeout=900, metadata={"for": template})
        if box.commands.run("[ ! -e /var/lib/dpkg/status ] || echo whole").stdout:
            return box
        box.kill()
        assert time.monotonic() < deadline, f"{template} is not built"
        time.sleep(2)


def programs(box):
    said = box.commands.run("bash --version; python --version; python3 --version; node --version; npm --version; git --version; curl --version").stdout
    for word in ("GNU bash", "Python 3", "v22.", "git version", "curl "):
        assert word in said, (word, said)
    who = box.commands.run("whoami; id -u; echo $HOME; pwd; sudo id -u; find / -xdev -perm /6000 -type f 2>/dev/null | wc -l").stdout.split()
    assert who == ["user", "1000", "/home/user", "/home/user", "0", "0"], who
    # Root of the sandbox is no root of anything else.
    outside = box.commands.run("cat /proc/self/uid_map; mount -t tmpfs none /mnt 2>&1; ls /proc/1/root/ 2>&1; true", user="root").stdout
    assert "denied" in outside or "not permitted" in outside, outside


def packages(box):
    done = box.commands.run("sudo apt-get update -q 2>&1 && sudo apt-get install -y -q cowsay jq 2>&1", timeout=300)
    assert done.exit_code == 0, done
    assert box.commands.run("echo '{\"a\": [1, 2]}' | jq -c .a").stdout == "[1,2]\n"
    assert "moo" in box.commands.run("/usr/games/cowsay moo").stdout
    assert box.commands.run("dpkg -s jq | grep Status").stdout == "Status: install ok installed\n"
    box.commands.run("pip install -q six 2>&1", timeout=120)
    assert box.commands.run("python3 -c 'import six; print(six.__name__)'").stdout == "six\n"
    box.commands.run("npm install --silent --no-fund is-odd 2>&1", timeout=120)
    assert box.commands.run("node -p 'require(\"is-odd\")(3)'").stdout == "true\n"


def copies(box):
    """A copy has the packages, the files and the metadata, and a life of its own."""
    box.files.write("/etc/made-here", "by root", user="root")
    box.files.write("note.txt", "by user")
    snapshot = box.create_snapshot()
    from_it = Plain.create(snapshot.snapshot_id)
    both = [*(fork.sandbox if hasattr(fork, "sandbox") else fork for fork in box.fork(count=2)), from_it]
    for number, copy in enumerate(both):
        said = copy.commands.run("cat /etc/made-here note.txt; jq --version; dpkg --audit").stdout
        assert said.startswith("by rootby userjq-"), said
        copy.files.write("note.txt", f"copy {number}")
    assert box.files.read("note.txt") == "by user"
    for copy in both[:2]:
        assert copy.get_info().metadata == {"for": "base"}, copy.get_info()
    assert [copy.files.read("note.txt") for copy in both] == ["copy 0", "copy 1", "copy 2"]
    for copy in both:
        copy.kill()


def interpreter(box):
    assert box.run_code("import IPython, numpy, pandas, matplotlib, PIL, e2b_charts; 6 * 7").text == "42"
    table = box.run_code("pandas.DataFrame({'a': [1, 2]})").results[0]
    assert table.data == {"a": [1, 2]}, table
    chart = box.run_code("import matplotlib.pyplot as plt\nplt.bar(['x', 'y'], [1, 2]); plt.title('t'); plt.show()").results[0]
    assert chart.png and chart.chart.type == "bar" and chart.chart.title == "t", chart
    assert box.run_code("!pip install -q tabulate").error is None
    assert box.run_code("import tabulate; tabulate.__name__").text == "tabulate"
    for language, code in (("js", "[1, 2].length"), ("ts", "const n: number = 2; n"), ("bash", "echo 2")):
        done = box.run_code(code, language=language)
        assert "2" in (done.text or "") + "".join(done.logs.stdout), (language, done)


def main():
    box = until_built(Plain, "base")
    for step in (programs, packages, copies):
        step(box)
    box.kill()
    box = until_built(Sandbox, "code-interpreter-v1")
    programs(box)
    interpreter(box)
    box.kill()
    # The second of its kind.
    again = Sandbox.create()
    assert again.run_code("import pandas; pandas.__name__").text == "pandas"
    again.kill()
    print("done")


main()
