# mem-sockets  [memory]
# Tries: park up to 900 MB in the buffers of unix sockets in several processes
# Must hold afterwards: stopped before twice the memory limit
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
def park(limit):
    total, keep, chunk = 0, [], b"s" * 65536
    try:
        while total < limit:
            a, b = socket.socketpair()
            keep += [a, b]
            a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
            a.setblocking(False)
            try:
                while total < limit:
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
        park(225 << 20)
os.close(w)
time.sleep(2)
os.set_blocking(r, False)
try:
    total = sum(int(x) for x in os.read(r, 4096).split())
except BlockingIOError:
    total = 0
print(total, "MB")
if total > 512:
    esc("%d MB in sockets" % total)
done()
