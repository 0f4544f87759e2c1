"""Speed-ups by model class, for traces without measured speed-ups.

S(n) = n / (1 + c (n - 1)): each further worker spends the share c of its time waiting for the others. The values of c
are tuned by hand, from almost no communication to a slow network. Measured points (`maar history`) in the trace
replace them.
"""

from __future__ import annotations

Points = tuple[tuple[int, float], ...]

OVERHEAD = {"scales-well": 0.01, "scales-fairly": 0.06, "scales-badly": 0.25}

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


def _points(overhead: float) -> Points:
    return tuple((n, round(n / (1 + overhead * (n - 1)), 3)) for n in SIZES)


CLASSES: dict[str, Points] = {name: _points(overhead) for name, overhead in OVERHEAD.items()}
"""Points (workers, speed-up) by class."""
