#!/usr/bin/env bash
# ok-exit-code  [benign]
# Tries: nothing hostile: end with 42
# Must hold afterwards: reported as 42
# Expected: status exit, exit code 42, survivors 0, wall <= 14 s
echo BENIGN-OK
exit 42
