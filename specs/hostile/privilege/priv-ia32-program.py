# priv-ia32-program  [privilege]
# Tries: execute a 32-bit program (made by hand, it only exits with 42), so that everything
# after exec uses the 32-bit ABI
# Must hold afterwards: it is killed at its first call or cannot be executed
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import struct
# mov eax,1; mov ebx,42; int 0x80
code = b"\xb8\x01\x00\x00\x00\xbb\x2a\x00\x00\x00\xcd\x80"
base, size = 0x08048000, 52 + 32 + len(code)
ehdr = b"\x7fELF\x01\x01\x01" + b"\0" * 9 + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0)
phdr = struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 5, 0x1000)
for path in ("/tmp/ia32", "./ia32"):
    with open(path, "wb") as f:
        f.write(ehdr + phdr + code)
    os.chmod(path, 0o755)
    pid = os.fork()
    if pid == 0:
        try:
            os.execv(path, [path])
        except OSError:
            os._exit(1)
    st = os.waitpid(pid, 0)[1]
    if os.WIFEXITED(st) and os.WEXITSTATUS(st) == 42:
        esc("a 32-bit program ran")
done()
