"""overcommit: groups are admitted while used and promised resources stay within the cluster times a factor."""

from __future__ import annotations

from typing import Any

import pytest

from maar.model.jobs import Phase
from maar.model.plan import Plan
from maar.model.selectors import Requirement
from maar.model.tasks import Status
from maar.testing.builders import GPU, Gang, cluster, gang, node, shape, tasks
from maar.testing.scenario import configured, scene


def text(arguments: str = "{}") -> str:
    return f"""
actions: "enqueue, allocate"
tiers:
- plugins:
  - {{name: priority}}
  - {{name: gang}}
- plugins:
  - {{name: overcommit, arguments: {arguments}}}
  - {{name: predicates}}
"""


CONFIG = configured(text())
EXACTLY = configured(text("{overcommit-factor: 1}"))


def group(name: str, gpus: int, phase: Phase = Phase.PENDING, **fields: Any) -> Gang:
    return gang(name, 0, minimum=1, phase=phase, min_resources={GPU: gpus}, **fields)


def admitted(plans: list[Plan]) -> list[str]:
    return [a.job for plan in plans for a in plan.admit]


def test_a_fifth_more_than_there_is_may_be_promised() -> None:
    world = cluster(node("n1", gpu=10), [group(f"g{i}", 4, created=float(i)) for i in range(4)])
    plans = scene(world, CONFIG)
    assert ["ns/g0", "ns/g1", "ns/g2"] == admitted(plans)
    (waiting,) = (w for w in plans[0].waiting if w.job == "ns/g3")
    assert [
        (
            "Overcommitted",
            "needs 4 nvidia.com/gpu, only 0 may still be promised (the cluster has 10, times 1.2)",
            GPU,
            4,
            0,
        )
    ] == [(r.code, r.message, r.resource, r.needs, r.has) for r in waiting.reasons]


def test_a_small_group_passes_a_large_one_that_is_too_much() -> None:
    world = cluster(node("n1", gpu=10), group("large", 13, created=0.0), group("small", 12, created=1.0))
    assert ["ns/small"] == admitted(scene(world, CONFIG))


@pytest.mark.parametrize(
    ("factor", "expected"),
    [("1.1", 11), ('"1.1"', 11), ("2", 20), ("0.5", 12), ("1", 10)],  # a factor below 1 becomes Volcano's 1.2
)
def test_the_factor_is_exact(factor: str, expected: int) -> None:
    config = configured(text(f"{{overcommit-factor: {factor}}}"))
    for gpus in (expected, expected + 1):
        plans = scene(cluster(node("n1", gpu=10), group("g", gpus)), config)
        assert (gpus == expected) == bool(admitted(plans))


def test_the_factor_has_no_rounding_of_its_own() -> None:
    """1.1 times 100 is 110, not 110.00000000000001; one more byte is too much."""
    config = configured(text("{overcommit-factor: 1.1}"))
    for amount, expected in ((110, True), (111, False)):
        waiting = gang("g", 0, minimum=1, phase=Phase.PENDING, min_resources={"memory": amount})
        assert expected == bool(admitted(scene(cluster(node("n1", memory=100), waiting), config)))


def test_what_is_used_counts_and_what_is_leaving_does_not() -> None:
    leaving = tasks("ns/old", 1, shape(gpu=4), on=["n1"], status=Status.RELEASING)
    running = gang("r", 1, gpu=4, on=["n1"])
    for gpus, expected in ((6, True), (7, False)):
        world = cluster(node("n1", gpu=10), leaving, running, group("g", gpus))
        assert expected == bool(admitted(scene(world, EXACTLY)))


def test_admitted_groups_count_with_what_they_still_lack() -> None:
    """Of 10: `waits` was promised 4 and has no pods; `half` runs with 1 of the 3 it needs, and its other pods wait."""
    half = gang("half", 3, minimum=1, gpu=1, on=["n1"], phase=Phase.RUNNING, min_resources={GPU: 3})
    nowhere = shape(gpu=1, node_selector=(Requirement("no-node-has-it", "Exists"),))
    rest = tasks("ns/half", 2, nowhere, first=1)
    half = Gang(half.job, (*half.tasks[:1], *rest))
    for gpus, expected in ((3, True), (4, False)):
        world = cluster(node("n1", gpu=10), group("waits", 4, Phase.INQUEUE), half, group("g", gpus))
        assert expected == bool(admitted(scene(world, EXACTLY)))


def test_a_group_whose_pods_are_held_back_keeps_no_room_from_others() -> None:
    held = gang("held", 4, gpu=1, min_resources={GPU: 4}, task={"status": Status.BLOCKED, "blocked": "gated"})
    assert ["ns/g"] == admitted(scene(cluster(node("n1", gpu=10), held, group("g", 10)), EXACTLY))
