# info-host-identity  [kernelinfo]
# Tries: learn which machine this is: host name, machine id, boot id, hardware, mounts and
# addresses of the host
# Must hold afterwards: names and identifiers are invented or absent
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import socket
real = {}
for path in ("/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/random/boot_id", "/sys/class/dmi/id/product_uuid", "/sys/devices/virtual/dmi/id/board_serial", "/etc/hostname", "/proc/cmdline", "/proc/version_signature", "/etc/ssh/ssh_host_rsa_key.pub"):
    try:
        text = open(path).read().strip()
        if text and path not in ("/etc/hostname",):
            esc(f"{path}: {text[:40]}")
    except OSError:
        pass
try:
    names = open("/etc/hosts").read()
    if any(w.startswith(("10.", "172.", "192.168.")) for line in names.splitlines() for w in line.split()):
        esc("/etc/hosts shows addresses of the host")
except OSError:
    pass
if "." in socket.gethostname():
    esc("host name " + socket.gethostname())
try:
    servers = [l for l in open("/etc/resolv.conf") if l.startswith("nameserver") and "127." not in l]
    if servers:
        esc("name servers of the host")
except OSError:
    pass
done()
