#!/usr/bin/env bash
# proc-keeper-killed  [process]
# Tries: nothing itself: it ignores signals and leaves daemons, and the harness kills the
# helper process that keeps the sandbox
# Must hold afterwards: the run dies with it; the client says that saggar failed (125); what
# only the helper could remove, the next run does
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 8 s
trap '' TERM INT HUP PIPE
setsid sleep 60 &
(trap '' TERM INT HUP; while :; do sleep 0.1; done) &
while :; do sleep 0.1; done
