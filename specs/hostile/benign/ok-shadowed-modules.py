# ok-shadowed-modules  [benign]
# Tries: nothing hostile: own files that are named like modules of the standard library, which
# a careless driver would import
# Must hold afterwards: the program runs with its own modules and its exception is still
# reported
# Expected: status exit, exit code 1, survivors 0, wall <= 14 s
import colors, turtle
assert turtle.mine and colors.red == 1
print("BENIGN-OK")
raise ValueError("reported although json.py and traceback.py are ours")
