import os
for _ in range(3):
    if os.fork() == 0:
        while True: pass
while True: pass
