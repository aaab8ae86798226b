# ok-future  [benign]
# Tries: nothing hostile: a module docstring, a __future__ import and a main guard, which must
# stay the first things in the file
# Must hold afterwards: works: nothing is put before the program's first line
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
"""A docstring."""
from __future__ import annotations
import sys, traceback
def f(x: NotDefinedAnywhere) -> AlsoNot:
    raise ValueError("here")
assert __doc__ == "A docstring."
assert f.__annotations__["x"] == "NotDefinedAnywhere"
if __name__ == "__main__":
    try:
        f(1)
    except ValueError:
        frames = traceback.extract_tb(sys.exc_info()[2])
        lines = open(__file__).read().splitlines()
        assert lines[frames[-1].lineno - 1].strip() == 'raise ValueError("here")', frames
        assert frames[-1].line == 'raise ValueError("here")', frames
    import __main__
    assert __main__.f is f
    print("BENIGN-OK")
