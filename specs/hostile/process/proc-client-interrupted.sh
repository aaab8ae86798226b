#!/usr/bin/env bash
# proc-client-interrupted  [process]
# Tries: nothing itself: it ignores signals, and somebody presses Ctrl-C at the client
# Must hold afterwards: the run is cancelled (130) and nothing is left
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 8 s
trap '' TERM INT HUP PIPE
setsid sleep 60 &
while :; do sleep 0.1; done
