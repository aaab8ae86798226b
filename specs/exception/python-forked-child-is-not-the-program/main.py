import os
if os.fork() == 0:
    raise ValueError("child")
os.wait()
print("parent")
