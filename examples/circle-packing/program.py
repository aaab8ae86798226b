"""26 circles in the unit square: where they begin, and how they grow and push each other about, is up to evolution."""
import math

# EVOLVE-BLOCK-START
ROUNDS = 5
GROWTH = 0.0005
PUSH = 0.5
SHRINK = 0.5
CENTRES = [
    (0.10, 0.10), (0.30, 0.12), (0.50, 0.08), (0.70, 0.12), (0.90, 0.10),
    (0.12, 0.30), (0.30, 0.28), (0.50, 0.32), (0.72, 0.28), (0.88, 0.32),
    (0.08, 0.50), (0.25, 0.48), (0.42, 0.52), (0.58, 0.48), (0.75, 0.52), (0.92, 0.50),
    (0.12, 0.70), (0.30, 0.72), (0.50, 0.68), (0.72, 0.72), (0.88, 0.68),
    (0.10, 0.90), (0.30, 0.88), (0.50, 0.92), (0.70, 0.88), (0.90, 0.90),
]
# EVOLVE-BLOCK-END


def packing():
    """Circles as (x, y, r)."""
    circles = [list(circle) for circle in fitted(CENTRES)]
    for turn in range(ROUNDS):
        for circle in circles:
            circle[2] += GROWTH * (1.0 - turn / ROUNDS)
        for index, one in enumerate(circles):
            for other in circles[:index]:
                part(one, other)
            for axis in (0, 1):
                for over, way in ((one[2] - one[axis], 1.0), (one[axis] + one[2] - 1.0, -1.0)):
                    if over > 0.0:
                        one[axis] += way * PUSH * over
                        one[2] -= SHRINK * over
    return fitted([(x, y) for x, y, _ in circles])


def part(one, other):
    """Two circles that overlap give way, and lose a little."""
    dx, dy = one[0] - other[0], one[1] - other[1]
    distance = math.hypot(dx, dy) or 1e-9
    over = one[2] + other[2] - distance
    if over > 0.0:
        push = PUSH * over / distance / 2
        one[0] += dx * push
        one[1] += dy * push
        other[0] -= dx * push
        other[1] -= dy * push
        one[2] -= SHRINK * over / 2
        other[2] -= SHRINK * over / 2


def fitted(centres):
    """The circles round these centres: each grows until it touches, a little at a time, so that none takes all the room."""
    centres = [(min(max(x, 0.0), 1.0), min(max(y, 0.0), 1.0)) for x, y in centres]
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
