print("first")
print("x" * 100000)
print("last")
