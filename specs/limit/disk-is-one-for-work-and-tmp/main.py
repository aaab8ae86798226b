import os
total = 0
for folder in ("/work", "/tmp", "/dev/shm"):
    try:
        with open(folder + "/x", "wb", buffering=0) as f:
            for _ in range(64): total += f.write(b"x" * (1 << 20))
    except OSError:
        pass
print(total <= 8 << 20)
