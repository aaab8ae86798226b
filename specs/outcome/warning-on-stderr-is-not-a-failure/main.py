import sys
print("TypeError: not really", file=sys.stderr)
