import os
print(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")) - 1, os.getsid(0) == os.getpid())
try:
    os.open("/dev/tty", os.O_RDWR)
except OSError as e:
    print(type(e).__name__)
