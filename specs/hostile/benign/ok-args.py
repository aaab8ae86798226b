# ok-args  [benign]
# Tries: nothing hostile: arguments with spaces, dashes, quotes, empty and not ASCII
# Must hold afterwards: arrive unchanged
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import sys
assert sys.argv[1:] == ["a b", "--json", "-", "", "\u00e9\u20ac", "'\"$HOME", "*"], sys.argv
print("BENIGN-OK")
