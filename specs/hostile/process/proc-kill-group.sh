#!/usr/bin/env bash
# proc-kill-group  [process]
# Tries: kill its whole process group, hoping that the supervisor is in it
# Must hold afterwards: the program alone dies, reported as signal 9 and not as a limit
# Expected: status signal, survivors 0, wall <= 6 s
echo START
sleep 20 &
kill -KILL 0
sleep 5
echo ESCAPED:still here
