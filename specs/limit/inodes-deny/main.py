import errno
try:
    for i in range(1000): open(f"/tmp/{i}", "w").close()
except OSError as e:
    print(errno.errorcode[e.errno], i < 100)
