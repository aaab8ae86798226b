# net-socket-options  [network]
# Tries: socket options that need privilege: marks, forced buffers, transparent proxies, packet
# filters of the host, raw headers
# Must hold afterwards: all are refused
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import socket
def attempt(what, family, kind, level, option, value):
    try:
        s = socket.socket(family, kind)
    except OSError:
        return
    try:
        s.setsockopt(level, option, value)
        esc(what)
    except OSError:
        pass
    s.close()
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    attempt("SO_MARK", socket.AF_INET, kind, socket.SOL_SOCKET, 36, 1)
    attempt("SO_RCVBUFFORCE", socket.AF_INET, kind, socket.SOL_SOCKET, 33, 1 << 30)
    attempt("SO_SNDBUFFORCE", socket.AF_UNIX, kind, socket.SOL_SOCKET, 32, 1 << 30)
    attempt("SO_PRIORITY 7", socket.AF_INET, kind, socket.SOL_SOCKET, 12, 7)
    attempt("SO_DEBUG", socket.AF_INET, kind, socket.SOL_SOCKET, 1, 1)
    attempt("IP_TRANSPARENT", socket.AF_INET, kind, socket.SOL_IP, 19, 1)
    attempt("IPV6_TRANSPARENT", socket.AF_INET6, kind, 41, 75, 1)
    attempt("IPT_SO_SET_REPLACE", socket.AF_INET, kind, socket.SOL_IP, 64, b"\0" * 96)
    attempt("IP6T_SO_SET_REPLACE", socket.AF_INET6, kind, 41, 64, b"\0" * 96)
    attempt("TCP_REPAIR", socket.AF_INET, kind, socket.IPPROTO_TCP, 19, 1)
for port in (1, 22, 53, 80, 443):
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", port))
        print("note: low port", port, "in its own network")
    except OSError:
        pass
done()
