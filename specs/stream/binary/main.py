import sys
sys.stdout.buffer.write(b"a\xff\x00b\n")
