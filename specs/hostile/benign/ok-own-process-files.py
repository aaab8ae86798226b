# ok-own-process-files  [benign]
# Tries: nothing hostile: read what usual programs read about themselves in /proc and /dev
# Must hold afterwards: works
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os, sys
status = open("/proc/self/status").read()
assert f"Pid:\t{os.getpid()}" in status
assert "[stack]" in open("/proc/self/maps").read()
assert len(os.listdir("/proc/self/fd")) >= 3 and os.listdir("/proc/self/task")
assert os.readlink("/proc/self/exe") == os.path.realpath(sys.executable)
assert open("/proc/self/cmdline", "rb").read()
assert len(os.urandom(16)) == 16 and len(open("/dev/urandom", "rb", buffering=0).read(16)) == 16
assert open("/dev/zero", "rb", buffering=0).read(4) == b"\0" * 4
open("/dev/null", "w").write("x")
try:
    open("/dev/full", "w", buffering=1).write("x\n")
    raise SystemExit("/dev/full takes data")
except OSError:
    pass
os.write(os.open("/dev/stdout", os.O_WRONLY), b"by /dev/stdout\n")
import getpass, pwd
assert pwd.getpwuid(os.getuid()).pw_name and os.path.isdir(os.path.expanduser("~")) and getpass.getuser()
print("BENIGN-OK")
