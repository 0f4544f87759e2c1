"""Which units open a node: enough of them, and no unneeded ones."""

from __future__ import annotations

import pytest

from maar.session.eviction.openings import Gift, cover
from maar.session.eviction.units import Unit


def single(job: int, task: int) -> Unit:
    return Unit(job, (task,), False)


def whole(job: int, *tasks: int) -> Unit:
    return Unit(job, tasks, True)


A, B, C = single(0, 0), single(1, 1), single(2, 2)
ALL = whole(0, 0, 3, 4)


@pytest.mark.parametrize(
    ("lack", "units", "expected"),
    [
        ((1,), [], None),
        ((0,), [(A, (1,))], ()),
        ((1,), [(A, (1,)), (B, (1,))], (A,)),
        ((2,), [(A, (1,)), (B, (1,)), (C, (1,))], (A, B)),
        ((4,), [(A, (1,)), (B, (1,))], None),
        ((2,), [(A, (1,)), (B, (2,))], (B,)),  # the last unit makes the first unneeded
        ((2, 1), [(A, (2, 0)), (B, (0, 1))], (A, B)),
        ((2, 1), [(A, (2, 0)), (B, (0, 1)), (C, (2, 1))], (A, B)),
        ((2, 1), [(A, (0, 0)), (B, (2, 1))], (B,)),
        ((3,), [(A, (1,)), (ALL, (3,))], (ALL,)),  # the whole gang includes its own surplus
        ((4,), [(A, (1,)), (ALL, (3,))], None),
        ((4,), [(B, (1,)), (A, (1,)), (ALL, (3,))], (B, ALL)),
    ],
)
def test_cover(lack: Gift, units: list[tuple[Unit, Gift]], expected: tuple[Unit, ...] | None) -> None:
    assert expected == cover(lack, units)
