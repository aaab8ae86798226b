# ok-exception  [benign]
# Tries: nothing hostile: end by an exception
# Must hold afterwards: reported as exit code 1 with the exception's type; the traceback is on
# stderr
# Expected: status exit, exit code 1, survivors 0, wall <= 14 s
class OwnError(Exception):
    pass
print("BENIGN-OK")
raise OwnError("as meant")
