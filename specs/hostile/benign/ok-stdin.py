# ok-stdin  [benign]
# Tries: nothing hostile: read standard input by lines and by input()
# Must hold afterwards: works
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import sys
first = input()
rest = sys.stdin.read().split()
assert first == "3 4", first
assert [int(x) for x in rest] == [5, 6, 7], rest
assert sys.stdin.read() == ""
print("BENIGN-OK", sum(map(int, first.split())) + sum(map(int, rest)))
