# term-split-sequences  [terminal]
# Tries: hide control sequences: split between two writes and between stdout and stderr, 8-bit
# introducers as UTF-8 and as raw bytes, device control and application strings, backspaces and
# carriage returns
# Must hold afterwards: on a terminal nothing but text, line ends and tabs arrives; with --raw
# it does
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import time
def out(b):
    os.write(1, b)
    time.sleep(0.02)
out(b"\x1b"); out(b"]0;owned\x07\n")
os.write(1, b"\x1b"); os.write(2, b"[31m red\n")
out(b"\xc2\x9b31m c1 as utf-8\n"); out(b"\xc2"); out(b"\x9d0;title\x07\n")
out(b"\x9b31m c1 raw\n")
out(b"\x1bP+q544e\x1b\\ \x1b_apc\x1b\\ \x1b^pm\x1b\\ \x1bc\n")
out(b"good\b\b\b\bevil\rover\x0b\x0c\x7f\x00\n")
out(b"x" * 65535 + b"\x1b"); out(b"[2J\n")
out(b"FINISHED\n")
