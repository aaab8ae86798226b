with open("/work/big", "wb", buffering=0) as f:
    while True:
        f.write(b"x" * (1 << 16))
