print(open("deep/er/x").read())
