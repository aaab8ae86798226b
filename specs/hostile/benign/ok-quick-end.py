# ok-quick-end  [benign]
# Tries: nothing hostile: end at once by os._exit, with a thread and a child still running
# Must hold afterwards: output so far and the code are kept, and the answer does not wait
# Expected: status exit, exit code 11, survivors 0, wall <= 6 s
import os, threading, time
threading.Thread(target=time.sleep, args=(20,)).start()
if os.fork() == 0:
    time.sleep(20)
print("BENIGN-OK", flush=True)
os._exit(11)
