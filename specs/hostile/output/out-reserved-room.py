# out-reserved-room  [output]
# Tries: reserve room in files without writing to them, by fallocate and by the ioctl that is
# older than it: any amount takes one call
# Must hold afterwards: what is reserved counts toward the limit of 64 MB, or cannot be reserved
# Expected: status exit|killed:disk, survivors 0, wall <= 14 s
import ctypes, fcntl, os, struct
libc = ctypes.CDLL(None, use_errno=True)
RESVSP = 0x40305828
got = 0
for i in range(200):
    fd = os.open("room%d" % i, os.O_CREAT | os.O_RDWR)
    for mode in (0, 1, 0x10):
        if libc.fallocate(fd, mode, ctypes.c_long(0), ctypes.c_long(16 << 20)) != 0:
            print(mode, os.strerror(ctypes.get_errno()))
    try:
        fcntl.ioctl(fd, RESVSP, struct.pack("hhqqiI4i", 0, 0, 0, 16 << 20, 0, 0, 0, 0, 0, 0))
    except OSError as e:
        print("ioctl", e.strerror)
    room = os.fstat(fd).st_blocks * 512 >> 20
    got += room
    if room == 0:
        break
print("ESCAPED:%d MB under a limit of 64" % got if got > 200 else "CONTAINED", flush=True)
