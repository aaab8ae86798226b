#!/usr/bin/env bash
# proc-client-killed  [process]
# Tries: nothing itself: it ignores signals and leaves daemons, and the harness kills the
# client with SIGKILL meanwhile
# Must hold afterwards: everything of the run dies and is removed although nobody was left to
# ask for it
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 8 s
trap '' TERM INT HUP PIPE
setsid sleep 60 &
(trap '' TERM INT HUP; while :; do sleep 0.1; done) &
while :; do sleep 0.1; done
