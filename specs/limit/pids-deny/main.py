import os, signal
kids = []
try:
    while True:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        kids.append(pid)
except BlockingIOError:
    print("refused after", len(kids))
for pid in kids:
    os.kill(pid, 9)
