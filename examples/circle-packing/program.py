"""26 circles in the unit square: where they are is a table of numbers, how large they are follows from it."""
import math

# EVOLVE-BLOCK-START
CENTRES = [
    (0.10, 0.10), (0.30, 0.12), (0.50, 0.08), (0.70, 0.12), (0.90, 0.10),
    (0.12, 0.30), (0.30, 0.28), (0.50, 0.32), (0.72, 0.28), (0.88, 0.32),
    (0.08, 0.50), (0.25, 0.48), (0.42, 0.52), (0.58, 0.48), (0.75, 0.52), (0.92, 0.50),
    (0.12, 0.70), (0.30, 0.72), (0.50, 0.68), (0.72, 0.72), (0.88, 0.68),
    (0.10, 0.90), (0.30, 0.88), (0.50, 0.92), (0.70, 0.88), (0.90, 0.90),
]
# EVOLVE-BLOCK-END


def packing():
    """Circles as (x, y, r): each grows until it touches, a little at a time, so that none takes all the room."""
    centres = [(min(max(x, 0.0), 1.0), min(max(y, 0.0), 1.0)) for x, y in CENTRES]
    wall = [min(x, y, 1.0 - x, 1.0 - y) for x, y in centres]
    gaps = [[math.hypot(x - u, y - v) for u, v in centres] for x, y in centres]
    for index, row in enumerate(gaps):
        row[index] = math.inf
    radii = [min(wall[index], min(row) / 2) for index, row in enumerate(gaps)]
    for share in (0.5, 0.5, 0.5, 1.0):
        for index, row in enumerate(gaps):
            room = min(wall[index], min(gap - r for gap, r in zip(row, radii)))
            radii[index] += share * (room - radii[index])
    return [(x, y, r) for (x, y), r in zip(centres, radii)]
