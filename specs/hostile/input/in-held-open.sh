#!/usr/bin/env bash
# in-held-open  [input]
# Tries: end while somebody holds the client's input open and writes nothing
# Must hold afterwards: the client does not wait for the end of input
# Expected: status exit, exit code 4, survivors 0, wall <= 6 s
echo CONTAINED
exit 4
