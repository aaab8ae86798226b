#!/usr/bin/env bash
# in-waits-for-input  [input]
# Tries: wait for input that never comes
# Must hold afterwards: the wall clock ends it
# Expected: status killed:timeout, survivors 0, wall <= 6 s
read -r line
echo ESCAPED:got "$line"
