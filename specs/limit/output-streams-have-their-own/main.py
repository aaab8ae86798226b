import sys
print("x" * 5000)
print("short", file=sys.stderr)
