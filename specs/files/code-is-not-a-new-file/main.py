print(open(__file__).read(5))
