# fs-stdin-reopen  [filesystem]
# Tries: its standard input was redirected from a file of the host that everybody may write:
# reopen it by /proc/self/fd/0 for writing, truncate it, change its mode and attributes
# Must hold afterwards: standard input is a pipe: nothing reaches the file
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import stat
kind = os.fstat(0).st_mode
if stat.S_ISREG(kind):
    esc("standard input is the host's file itself")
text = sys.stdin.read()
if text != "original\n":
    print("input was", repr(text))
for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND):
    try:
        fd = os.open("/proc/self/fd/0", flags | os.O_NONBLOCK)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            os.write(fd, b"changed by the program\n")
            esc("wrote to the file behind standard input")
        os.close(fd)
    except OSError:
        pass
for change in (lambda: os.ftruncate(0, 0), lambda: os.truncate("/dev/stdin", 0)):
    try:
        change()
        esc("truncated standard input")
    except OSError:
        pass
done()
