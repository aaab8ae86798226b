# ok-machine-size  [benign]
# Tries: nothing hostile: ask how many processors and how much memory there are, and use a pool
# of that size
# Must hold afterwards: answers are sensible and the pool works
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import concurrent.futures, os, shutil
n = os.cpu_count()
assert n is None or n >= 1
assert 1 <= len(os.sched_getaffinity(0)) <= 4096
assert os.sysconf("SC_PAGE_SIZE") > 0 and os.sysconf("SC_PHYS_PAGES") > 0
with concurrent.futures.ThreadPoolExecutor() as pool:
    assert sum(pool.map(lambda x: x * x, range(100))) == 328350
with concurrent.futures.ProcessPoolExecutor(2) as pool:
    assert list(pool.map(abs, [-1, -2])) == [1, 2]
assert shutil.disk_usage(".").total > 0 and os.getloadavg() if os.path.exists("/proc/loadavg") else True
print("BENIGN-OK")
