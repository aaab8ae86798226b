import os
open("same.txt").read()
open("input.txt", "a").write("more")
os.makedirs("a/b")
open("a/b/c.bin", "wb").write(bytes(300))
open("/tmp/elsewhere", "w").write("x")
