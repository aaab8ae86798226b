print("no newline", end="")
import os
os.kill(os.getpid(), 9)
