# ok-subprocess  [benign]
# Tries: nothing hostile: subprocesses by the shell, pipelines, time-outs, signals, process
# groups and a pseudo-terminal if there is one
# Must hold afterwards: works
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os, signal, subprocess, sys
assert subprocess.check_output("echo a b | tr a-z A-Z | rev", shell=True, text=True) == "B A\n"
p = subprocess.Popen(["sh", "-c", "read x; echo got $x >&2; exit 3"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
assert p.communicate("hi\n")[1] == "got hi\n" and p.returncode == 3
try:
    subprocess.run(["sleep", "5"], timeout=0.2)
    sys.exit("no time-out")
except subprocess.TimeoutExpired:
    pass
p = subprocess.Popen(["sleep", "30"], start_new_session=True)
os.killpg(p.pid, signal.SIGTERM)
assert p.wait() == -signal.SIGTERM
assert os.posix_spawn("/bin/true", ["true"], {}) > 0 and os.wait()[1] == 0
assert subprocess.run([sys.executable, "-c", "print(6*7)"], capture_output=True, text=True).stdout == "42\n"
assert os.popen("exit 4").close() >> 8 == 4
print("BENIGN-OK")
