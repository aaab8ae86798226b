# fs-memfd-program  [filesystem]
# Tries: execute programs that exist in no file system, from sealed and unsealed memory files
# Must hold afterwards: they run with exactly the same limits: no canary, no namespace, no
# capability
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import subprocess
data = open("/bin/sh", "rb").read()
script = b"#!/bin/sh\ncat /var/tmp/hostile-canary/secret.txt 2>/dev/null && echo ESCAPED:canary\nunshare -U true 2>/dev/null && echo ESCAPED:namespace\ngrep -q '^CapEff:.*[1-9a-f]' /proc/self/status && echo ESCAPED:capabilities\ntrue\n"
for flags in (0, 2):
    try:
        fd = os.memfd_create("hostile", flags)
        os.write(fd, data)
        r = subprocess.run([f"/proc/self/fd/{fd}", "-c", script.decode().split("\n", 1)[1]], pass_fds=[fd], capture_output=True, text=True)
        if "ESCAPED" in r.stdout:
            esc("from memory: " + r.stdout.strip())
        print("ran", r.returncode)
    except OSError as e:
        print("refused", e.strerror)
done()
