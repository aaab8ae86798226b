"""The sum of the radii of 26 circles that lie in the unit square and do not overlap: checked with tolerance 0.

Circles that overlap or stand out are all made smaller by the worst violation, so that a small mistake costs little; then
every constraint must hold exactly, in whole numbers."""
import importlib.util
import math

COUNT = 26
RECORD = 2.635


def violation(circles):
    """How far the worst constraint is from holding."""
    worst = 0.0
    for index, (x, y, r) in enumerate(circles):
        worst = max(worst, r - x, r - y, x + r - 1.0, y + r - 1.0)
        for u, v, s in circles[:index]:
            worst = max(worst, (r + s - math.hypot(x - u, y - v)) / 2)
    return worst


def holds(circles):
    """Whether every constraint holds, exactly."""
    # A float is a whole number over a power of two; over the largest of them all are whole numbers.
    ratios = [[number.as_integer_ratio() for number in circle] for circle in circles]
    one = max(below for circle in ratios for _, below in circle)
    exact = [tuple(above * (one // below) for above, below in circle) for circle in ratios]
    for index, (x, y, r) in enumerate(exact):
        if r < 0 or x < r or y < r or x + r > one or y + r > one:
            return False
        for u, v, s in exact[:index]:
            if (x - u) ** 2 + (y - v) ** 2 < (r + s) ** 2:
                return False
    return True


def evaluate(program_path):
    spec = importlib.util.spec_from_file_location("program", program_path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    circles = [tuple(float(number) for number in circle) for circle in program.packing()]
    if len(circles) != COUNT or not all(len(circle) == 3 and all(map(math.isfinite, circle)) for circle in circles):
        return {"combined_score": 0.0, "error": f"packing() must return {COUNT} times (x, y, r)"}
    claimed = sum(r for _, _, r in circles)
    worst = violation(circles)
    if worst > 0.0 or not holds(circles):
        circles = [(x, y, max(0.0, r - worst - 1e-12)) for x, y, r in circles]
    total = sum(r for _, _, r in circles) if holds(circles) else 0.0
    return {"combined_score": total, "claimed": claimed, "violation": worst, "of_record": total / RECORD}
