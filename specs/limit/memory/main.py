print("before")
x = []
while True:
    x.append(bytearray(b"x" * (8 << 20)))
