# ok-result-files  [benign]
# Tries: nothing hostile: leave files in nested folders, changed and new, empty and binary
# Must hold afterwards: they come back
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import os
os.makedirs("results/run 1", exist_ok=True)
open("results/run 1/table.csv", "w").write("a,b\n1,2\n")
open("results/plot.png", "wb").write(bytes(range(256)) * 16)
open("empty", "w").close()
open("given.txt", "a").write("more\n")
assert open("given.txt").read() == "given\nmore\n"
print("BENIGN-OK")
