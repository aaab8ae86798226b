#!/usr/bin/env bash
# proc-fake-cpu-limit  [process]
# Tries: send itself the signal of the processor time limit
# Must hold afterwards: reported as that signal, not as a limit
# Expected: status signal, survivors 0, wall <= 6 s
echo START
kill -XCPU $$
sleep 1
echo ESCAPED:still here
