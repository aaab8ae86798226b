import os, socket
os.symlink("/etc/passwd", "link")
os.symlink("/work", "loop")
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("sock")
open("real", "w").write("x")
