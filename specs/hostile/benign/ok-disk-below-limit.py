# ok-disk-below-limit  [benign]
# Tries: nothing hostile: write 40 of 64 MB in some files, remove them, and again
# Must hold afterwards: works
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os
for _ in range(3):
    for i in range(8):
        with open(f"f{i}", "wb") as f:
            f.write(os.urandom(1 << 20) * 5)
    assert sum(os.path.getsize(f"f{i}") for i in range(8)) == 40 << 20
    for i in range(8):
        os.unlink(f"f{i}")
print("BENIGN-OK")
