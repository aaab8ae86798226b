"""A walk downhill from one point. Where it begins and how it goes is up to evolution."""
import math


def function(x, y):
    return math.sin(x) * math.cos(y) + math.sin(x * y) + (x * x + y * y) / 20


# EVOLVE-BLOCK-START
START = (4.0, 4.0)
STEP = 0.5
SHRINK = 0.5


def search():
    x, y = START
    step = STEP
    for _ in range(20):
        around = [(x, y), (x + step, y), (x - step, y), (x, y + step), (x, y - step)]
        best = min(around, key=lambda point: function(*point))
        if best == (x, y):
            step = step * SHRINK
        x, y = best
    return x, y
# EVOLVE-BLOCK-END
