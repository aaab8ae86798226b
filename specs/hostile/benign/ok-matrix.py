# ok-matrix  [benign]
# Tries: nothing hostile: numbers: matrices, fractions, decimals, big integers, random,
# statistics
# Must hold afterwards: works
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import decimal, fractions, math, random, statistics
n = 60
random.seed(1)
a = [[random.random() for _ in range(n)] for _ in range(n)]
eye = [[float(i == j) for j in range(n)] for i in range(n)]
b = [[sum(x * y for x, y in zip(row, col)) for col in zip(*eye)] for row in a]
assert all(math.isclose(x, y) for r, s in zip(a, b) for x, y in zip(r, s))
assert fractions.Fraction(1, 3) + fractions.Fraction(1, 6) == fractions.Fraction(1, 2)
assert decimal.Decimal("0.1") + decimal.Decimal("0.2") == decimal.Decimal("0.3")
assert pow(3, 10**5, 10**9 + 7) == pow(pow(3, 10**4, 10**9 + 7), 10, 10**9 + 7)
assert len(str(2**10000)) == 3011
assert statistics.median([3, 1, 2]) == 2
print("BENIGN-OK")
