"""Which changes are worth it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.elastic.damping import Damping, damped, may_damp
from maar.elastic.jobs import make_jobs


def sizes(
    now: list[int],
    target: list[int],
    *,
    gpus: int = 8,
    restart: float = 0.0,
    remaining: float = math.inf,
    hysteresis: int = 0,
) -> list[int]:
    jobs = make_jobs([f"j{i}" for i in range(len(now))], min=1, max=8, submit=range(len(now)), remaining=remaining)
    damping = Damping(hysteresis=hysteresis, horizon=600.0)
    made = damped(jobs, np.array(now), np.array(target), gpus, np.full(len(now), restart), damping)
    return list(made.tolist())


@pytest.mark.parametrize(
    ("now", "target", "more", "expected"),
    [
        ([2, 2], [6, 2], {}, [6, 2]),  # nothing is damped
        ([2, 2], [3, 2], {"hysteresis": 1}, [2, 2]),  # too small a change
        ([2, 2], [4, 2], {"hysteresis": 1}, [4, 2]),
        ([3, 0], [2, 1], {"hysteresis": 1, "gpus": 3}, [2, 1]),  # a start needs the room, even of a small shrink
        ([3, 0], [2, 1], {"hysteresis": 1, "gpus": 8}, [3, 1]),  # there is room for both
        ([4, 4], [5, 3], {"hysteresis": 1}, [4, 4]),  # the growth is dropped, and then the shrink is not needed
        ([2, 0], [4, 0], {"restart": 30.0}, [4, 0]),  # 2 * 600 s gained, 4 * 30 s lost
        ([2, 0], [4, 0], {"restart": 301.0}, [2, 0]),
        ([2, 0], [4, 0], {"restart": 30.0, "remaining": 200.0}, [2, 0]),  # ends in 50 s: 100 s gained, 120 s lost
        ([2, 4], [2, 0], {"restart": 1.0}, [2, 4]),  # no job needs the GPUs that it would free
        ([2, 4], [8, 0], {"restart": 1.0}, [8, 0]),
    ],
)
def test_damped(now: list[int], target: list[int], more: dict[str, float], expected: list[int]) -> None:
    assert expected == sizes(now, target, **more)  # type: ignore[arg-type]


CHANGES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 4)), min_size=1, max_size=6)


@given(CHANGES, st.integers(-4, 12))
def test_safety_what_may_not_be_held_back_is_not(changes: list[tuple[int, int, int]], free: int) -> None:
    """For any damping. If a change may be held back, some damping does so."""
    now, target, width = (np.array(column) for column in zip(*changes, strict=True))
    jobs = make_jobs([f"j{i}" for i in range(len(now))], min=1, max=8, gpus=width)
    gpus = int(now @ width) + free
    made = damped(jobs, now, target, gpus, np.full(len(now), 1e9), Damping(hysteresis=8))
    assert may_damp(changes, free) == bool((made != target).any())
