import os
os.open("/proc/1/environ", os.O_RDONLY)
