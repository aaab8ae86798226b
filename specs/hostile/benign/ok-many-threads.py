# ok-many-threads  [benign]
# Tries: nothing hostile: 40 threads under a limit of 64
# Must hold afterwards: works
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import threading, time
gate = threading.Barrier(41)
def work():
    gate.wait(8)
ts = [threading.Thread(target=work) for _ in range(40)]
for t in ts:
    t.start()
gate.wait(8)
for t in ts:
    t.join()
print("BENIGN-OK")
