# net-local-floods  [network]
# Tries: fill TCP and UDP buffers on its own loopback, up to 600 MB in four processes
# Must hold afterwards: stopped before twice the memory limit, and nothing reaches the host's
# ports
# Expected: status killed:memory|exit|signal, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
import socket, time
r, w = os.pipe()
def park():
    total, keep, chunk = 0, [], b"n" * 65536
    server = socket.socket()
    try:
        server.bind(("127.0.0.1", 0))
        server.listen(500)
        while total < (150 << 20):
            a = socket.socket()
            a.settimeout(1)
            a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
            a.connect(server.getsockname())
            keep.append(a)
            a.setblocking(False)
            try:
                while total < (150 << 20):
                    total += a.send(chunk)
            except BlockingIOError:
                pass
    except OSError:
        pass
    os.write(w, b"%d\n" % (total >> 20))
    time.sleep(2)
    os._exit(0)
for _ in range(4):
    if os.fork() == 0:
        park()
os.close(w)
time.sleep(3)
os.set_blocking(r, False)
try:
    total = sum(int(x) for x in os.read(r, 4096).split())
except BlockingIOError:
    total = 0
print(total, "MB")
if total > 512:
    esc("%d MB in sockets" % total)
done()
