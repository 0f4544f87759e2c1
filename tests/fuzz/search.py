"""Runs a target on new inputs for some time; hypothesis makes an input that fails as small as possible."""

from __future__ import annotations

import time

from hypothesis import HealthCheck, given, seed, settings
from tests.fuzz.targets import Target

ROUND = 50
"""Inputs between two looks at the clock."""
SETTINGS = settings(
    max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True
)


def search(target: Target, seconds: float, start: int) -> int:
    """The number of inputs tried; raises what the first that fails raises."""
    tried, number, ends = 0, start * 1000, time.monotonic() + seconds

    def check(example: object) -> None:
        nonlocal tried
        tried += 1
        target.check(example)

    while time.monotonic() < ends:
        seed(number)(SETTINGS(given(target.inputs)(check)))()
        number += 1
    return tried
