# out-cut-characters  [output]
# Tries: print more than the limit in characters of two to four bytes and broken ones, so that
# the cut falls inside a character
# Must hold afterwards: the answer is valid JSON and UTF-8
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os, sys
_bad = []
def esc(what):
    _bad.append(what)
    print("ESCAPED:" + what, flush=True)
def done():
    print("NOT-CONTAINED" if _bad else "CONTAINED", flush=True)
text = ("\u20ac\U0001f600\u00e9" * 50000).encode()
os.write(1, b"x")
for part in (text, b"\xf0\x9f\x98" * 30000, b"\xed\xa0\x80" * 1000, b"\xff\x00" * 30000, text):
    while part:
        part = part[os.write(1, part):]
os.write(2, b"\xe2\x82")
