#!/usr/bin/env bash
# proc-client-sigterm  [process]
# Tries: nothing itself: it ignores signals, and the client is terminated
# Must hold afterwards: everything of the run dies and is removed
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 8 s
trap '' TERM INT HUP PIPE
setsid sleep 60 &
while :; do sleep 0.1; done
