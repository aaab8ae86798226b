# out-nested-odd-names  [output]
# Tries: nested directories and files whose names climb, hold line ends, raw bytes, control
# sequences, backslashes, 255 bytes, or look like options, and a path longer than any buffer
# Must hold afterwards: everything that comes back stays below the folder that was asked for,
# and the answer is valid JSON
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
open("plain.txt", "w").write("plain")
names = [b"..\\..\\climb", b"%2e%2e", b"...", b". ", b"-rf", b"--out", b"line\nend", b"\xff\xfe\xfd", b"\xc0\xaf", b"\x1b[2J", b"\x7f", b"a" * 255, b"tab\t", b"quote\"'`$(id)", "\u202egpj.txt".encode(), "\ud800".encode("utf-8", "surrogatepass"), b"nul\\0", b"C:", b"*", b"~", b"CON.txt"]
for n in names:
    try:
        os.mkdir(b"d" + n[:200])
        open(b"d" + n[:200] + b"/" + n, "w").write("x")
        open(n, "w").write("x")
    except OSError:
        pass
here = os.open(".", os.O_RDONLY)
try:
    for _ in range(60):
        os.mkdir("n" * 200)
        os.chdir("n" * 200)
    open("bottom", "w").write("b")
except OSError:
    pass
os.fchdir(here)
print("FINISHED")
