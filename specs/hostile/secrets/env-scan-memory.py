# env-scan-memory  [secrets]
# Tries: search its whole memory, which a warm interpreter shares with the process that it was
# forked from, for the host's secret and for what is left of a parent's environment
# Must hold afterwards: neither is there
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import re
token = re.compile(rb"CANARY\x2d(?:ENV|SECRET|NET)\x2d[0-9a-f]{8}")
name = re.compile(rb"HOSTILE_SECRET_TOK[E]N=")
with open("/proc/self/mem", "rb", buffering=0) as mem:
    for row in open("/proc/self/maps"):
        span, mode = row.split()[:2]
        if not mode.startswith("r") or "[vvar" in row or "[vsyscall]" in row:
            continue
        start, end = (int(x, 16) for x in span.split("-"))
        if end - start > (256 << 20):
            continue
        try:
            mem.seek(start)
            data = mem.read(end - start)
        except (OSError, ValueError, OverflowError):
            continue
        for pattern in (token, name):
            if pattern.search(data):
                esc("in memory at " + span + ": " + row.split()[-1])
done()
