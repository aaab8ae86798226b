import ctypes, errno, fcntl, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.inotify_init(), errno.errorcode[ctypes.get_errno()])
for command, argument in ((1024, 1), (1026, 1)):
    fd = os.open("/usr/bin", os.O_RDONLY)
    try:
        fcntl.fcntl(fd, command, argument)
        print("allowed")
    except OSError as e:
        print(errno.errorcode[e.errno])
