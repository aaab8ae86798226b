# ok-memory-below-limit  [benign]
# Tries: nothing hostile: use and give back 150 of 256 MB several times
# Must hold afterwards: works and is not called a limit
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
for i in range(4):
    b = bytearray(150 << 20)
    for k in range(0, len(b), 4096):
        b[k] = 1
    del b
print("BENIGN-OK")
