"""Loads in the rows of the node table."""

from __future__ import annotations

import numpy as np
import pytest

from maar.model.loads import MAX_AGE, Load
from maar.model.snapshot import Snapshot
from maar.testing.builders import cluster, gang, node


def test_rows_are_those_of_the_nodes() -> None:
    table = Snapshot(
        cluster(node("b"), node("a"), Load("b", 0.5, None, 10.0, 8000, 64), Load("gone", 0.1, 0.1, 10.0))
    ).loads
    np.testing.assert_array_equal([np.nan, 0.5], table.cpu)
    np.testing.assert_array_equal([np.nan, np.nan], table.memory)
    np.testing.assert_array_equal([0.0, 8000.0], table.cpu_capacity)
    np.testing.assert_array_equal([0.0, 64.0], table.memory_capacity)


@pytest.mark.parametrize(
    ("now", "fresh"), [(10.0, True), (10.0 + MAX_AGE, True), (11.0 + MAX_AGE, False), (9.0 - MAX_AGE, False)]
)
def test_old_figures_are_not_fresh(now: float, fresh: bool) -> None:
    """Nor are those of a clock that is far ahead: they would never expire."""
    table = Snapshot(cluster(node("a"), node("b"), Load("b", 0.5, 0.5, 10.0))).loads
    assert [False, fresh] == table.fresh(now).tolist()


def test_the_next_snapshot_has_its_own_loads() -> None:
    first = Snapshot(cluster(node("a"), gang("j"), Load("a", 0.5, 0.5, 1.0)))
    assert 0.5 == first.loads.cpu[0]
    second = first.after(cluster(node("a"), Load("a", 0.75, 0.5, 2.0)), {})
    assert second is not None
    assert (0.75, 0.5) == (second.loads.cpu[0], first.loads.cpu[0])
