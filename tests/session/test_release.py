"""Gangs that run in part and cannot be completed release their room, if a controller recreates their pods."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.confs import ALLOCATE

from maar.model.snapshot import Budget
from maar.testing.builders import cluster, gang, node
from maar.testing.scenario import configured, cycles

CONFIG = configured(ALLOCATE)


def half(**task: Any) -> Any:
    """Two of the three pods of a gang run."""
    return gang("half", 3, gpu=4, on=["n1", "n1"], task={"controlled": True, **task})


def test_what_cannot_be_finished_is_released() -> None:
    (plan,), _ = cycles(cluster(node("n1", gpu=8), half()), CONFIG, 1)
    assert {"ns/half-0", "ns/half-1"} == {e.task for e in plan.evict}
    assert {"ns/half"} == {e.beneficiary for e in plan.evict}
    assert plan.evict[0].reason.startswith("released: the missing pods of gang `ns/half` no longer fit")


def test_what_can_be_finished_is_finished() -> None:
    (plan,), _ = cycles(cluster(node("n1", gpu=8), node("n2", gpu=8), half()), CONFIG, 1)
    assert () == plan.evict
    assert ["ns/half-2"] == [b.task for b in plan.bind]


@pytest.mark.parametrize(
    "task", [{"controlled": False}, {"preemptable": False}, {"critical": True}, {"budgets": ("ns/pdb",)}]
)
def test_pods_that_are_not_recreated_or_are_protected_stay(task: dict[str, Any]) -> None:
    (plan,), _ = cycles(cluster(node("n1", gpu=8), half(**task), Budget("ns/pdb", 1)), CONFIG, 1)
    assert () == plan.evict


def test_a_gang_whose_pods_are_being_recreated_keeps_its_room() -> None:
    scene = cluster(node("n1", gpu=8), gang("half", 2, minimum=3, gpu=4, on=["n1", "n1"], task={"controlled": True}))
    (plan,), _ = cycles(scene, CONFIG, 1)
    assert () == plan.evict
