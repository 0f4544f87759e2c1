"""Speed-ups by the name of a model class, for traces that do not measure their own.

S(n) = n / (1 + c (n - 1)): of each further worker's time the part c goes into waiting for the others. The values of c
are by taste, from work that hardly communicates to work that a slow network holds up; whoever has measured jobs
(`maar history`) writes their own points into the trace instead.
"""

from __future__ import annotations

Points = tuple[tuple[int, float], ...]

OVERHEAD = {"scales-well": 0.01, "scales-fairly": 0.06, "scales-badly": 0.25}

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


def _points(overhead: float) -> Points:
    return tuple((n, round(n / (1 + overhead * (n - 1)), 3)) for n in SIZES)


CLASSES: dict[str, Points] = {name: _points(overhead) for name, overhead in OVERHEAD.items()}
"""Each class and its points (workers, speed-up)."""
