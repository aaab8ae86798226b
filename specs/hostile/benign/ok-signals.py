# ok-signals  [benign]
# Tries: nothing hostile: alarms, handlers, timers, child notices and waiting for signals
# Must hold afterwards: works
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os, select, signal, time
hits = []
signal.signal(signal.SIGALRM, lambda *a: hits.append("alarm"))
signal.signal(signal.SIGCHLD, lambda *a: hits.append("child"))
signal.signal(signal.SIGUSR1, lambda *a: hits.append("usr1"))
signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(0.2)
os.kill(os.getpid(), signal.SIGUSR1)
if os.fork() == 0:
    os._exit(0)
os.wait()
time.sleep(0.1)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.kill(os.getpid(), signal.SIGUSR2)
assert signal.sigtimedwait([signal.SIGUSR2], 1).si_signo == signal.SIGUSR2
assert {"alarm", "child", "usr1"} <= set(hits), hits
e = select.epoll()
r, w = os.pipe()
e.register(r, select.EPOLLIN)
os.write(w, b"x")
assert e.poll(1)
print("BENIGN-OK")
