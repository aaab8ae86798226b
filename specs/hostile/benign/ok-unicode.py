# ok-unicode  [benign]
# Tries: nothing hostile: text outside ASCII on both streams, in file names and in the
# environment's locale
# Must hold afterwards: arrives unchanged
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os, sys
text = "\u00fcber \u65e5\u672c\u8a9e \U0001f600 e\u0301 \u202b"
open("\u65e5\u672c.txt", "w").write(text)
assert open("\u65e5\u672c.txt").read() == text and "\u65e5\u672c.txt" in os.listdir(".")
print(text)
print("stderr \u20ac", file=sys.stderr)
assert sys.stdout.encoding.lower().replace("-", "") == "utf8" and sys.getfilesystemencoding() == "utf-8"
print("BENIGN-OK")
