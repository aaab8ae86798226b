try:
    with open("big", "wb") as f:
        for _ in range(64): f.write(b"x" * (1 << 20))
except OSError as e:
    print(e.errno)
