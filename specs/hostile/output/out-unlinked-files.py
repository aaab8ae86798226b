# out-unlinked-files  [output]
# Tries: fill the disk by files that have no name any more, in two threads with descriptors of
# their own, so that nobody who walks over folders finds them
# Must hold afterwards: they count toward the limit of 64 MB
# Expected: status exit|killed:disk, survivors 0, wall <= 14 s
import ctypes, os, threading
CLONE_FILES = 0x400
libc = ctypes.CDLL(None)
chunk, total, lock = b"z" * (1 << 20), [0], threading.Lock()
def fill(name):
    # Where that is refused the descriptors are shared, which hides them no better.
    libc.unshare(CLONE_FILES)
    fd = os.open(name, os.O_CREAT | os.O_WRONLY)
    os.unlink(name)
    try:
        while total[0] < 500:
            os.write(fd, chunk)
            with lock:
                total[0] += 1
    except OSError as e:
        print(e.strerror)
threads = [threading.Thread(target=fill, args=("gone%d" % i,)) for i in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
print("ESCAPED:%d MB under a limit of 64" % total[0] if total[0] > 200 else "CONTAINED", flush=True)
