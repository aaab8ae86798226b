# net-netlink-changes  [network]
# Tries: change its network by route netlink: new interfaces, addresses, routes, rules,
# neighbours, another name space for lo
# Must hold afterwards: every change is refused
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import socket, struct
def ask(kind, flags, body):
    s = socket.socket(16, 3, 0)
    s.settimeout(2)
    s.bind((0, 0))
    s.send(struct.pack("=IHHII", 16 + len(body), kind, flags | 5, 1, 0) + body)
    data = s.recv(8192)
    s.close()
    return struct.unpack("=i", data[16:20])[0] if struct.unpack("=H", data[4:6])[0] == 2 else None
name = struct.pack("=HH", 12, 3) + b"hostile\0"
dummy = struct.pack("=HH", 16, 18) + struct.pack("=HH", 10, 1) + b"dummy\0\0\0"
addr = struct.pack("=HH4s", 8, 2, bytes([127, 0, 0, 9])) + struct.pack("=HH4s", 8, 1, bytes([127, 0, 0, 9]))
route = struct.pack("=HH4s", 8, 1, bytes([127, 9, 9, 9])) + struct.pack("=HHI", 8, 4, 1)
requests = {
    "a new interface": (16, 0x600, struct.pack("=BxHiII", 0, 0, 0, 0, 0) + name + dummy),
    "an address": (20, 0x600, struct.pack("=BBBBI", 2, 32, 0, 254, 1) + addr),
    "a route": (24, 0x600, struct.pack("=BBBBBBBBI", 2, 32, 0, 0, 254, 3, 253, 1, 0) + route),
    "a rule": (32, 0x600, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 0, 0, 1, 0)),
    "the size of lo": (19, 0, struct.pack("=BxHiII", 0, 0, 1, 0, 0) + struct.pack("=HHI", 8, 4, 1500)),
    "a name space for lo": (19, 0, struct.pack("=BxHiII", 0, 0, 1, 0, 0) + struct.pack("=HHI", 8, 19, 1)),
}
for what, (kind, flags, body) in requests.items():
    try:
        if ask(kind, flags, body) == 0:
            esc("changed " + what)
    except OSError:
        pass
done()
