#!/usr/bin/env bash
# proc-init-killed  [process]
# Tries: nothing itself: it leaves daemons, and the harness kills process 1 of its namespace,
# as an administrator or the host's out-of-memory killer might
# Must hold afterwards: the run dies with it and is reported as ended by something else than
# itself, never as ok
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 8 s
setsid sleep 60 &
while :; do sleep 0.1; done
