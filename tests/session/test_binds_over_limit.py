"""Binds without room under the limit of their queue, once evictions and smaller sizes are left out of a plan."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from maar.model.plan import Bind, Evict, Plan, Resize, Suspend
from maar.model.queues import Queue
from maar.model.snapshot import Snapshot
from maar.session.binds_over_limit import uncovered
from maar.testing.builders import GPU, cluster, elastic, gang, node

BINDS = (Bind("ns/high-0", "b"), Bind("ns/more-0", "b"))
VICTIMS = tuple(Evict(f"ns/low-{i}", "ns/high", "because") for i in range(2))


def scene(limit: int = 8, running: int = 0) -> Snapshot:
    """A queue below another one; 6 GPUs run in it, `high` needs 6, and `more` needs 2."""
    queues = Queue("all", capability={GPU: limit}), Queue("mine", parent="all"), Queue("free")
    low: Any = gang("low", 2, gpu=3, on=["a", "a"], queue="mine", priority=1)
    if running:
        low = elastic("low", 1, 6, on=["a"] * running, job={"queue": "mine"})
    waits = gang("high", 1, gpu=6, queue="mine", priority=9), gang("more", 1, gpu=2, queue="mine", priority=5)
    return Snapshot(cluster(node("a", gpu=8), node("b", gpu=8), *queues, low, *waits))


def test_a_plan_that_is_whole_has_all_its_room() -> None:
    whole = Plan(bind=BINDS, evict=VICTIMS)
    assert {} == uncovered(whole, whole, scene())


def test_without_the_evictions_only_what_fits_beside_the_victims_is_bound() -> None:
    whole = Plan(bind=BINDS, evict=VICTIMS)
    assert {"ns/high": "all"} == uncovered(whole, replace(whole, evict=()), scene())
    part = replace(whole, evict=VICTIMS[:1])
    assert {"ns/high": "all"} == uncovered(whole, part, scene()), "3 of 8 GPUs stay, and 6 are too many"
    alone = Plan(bind=BINDS[1:], evict=VICTIMS)
    assert {} == uncovered(alone, replace(alone, evict=()), scene())


def test_more_important_jobs_keep_their_room() -> None:
    whole = Plan(bind=BINDS, evict=VICTIMS)
    assert {"ns/more": "all"} == uncovered(whole, replace(whole, evict=()), scene(limit=13))


def test_a_limit_that_the_whole_plan_does_not_keep_is_not_enforced() -> None:
    whole = Plan(bind=BINDS, evict=VICTIMS)
    assert {} == uncovered(whole, replace(whole, evict=()), scene(limit=7))


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        (Plan(bind=BINDS[:1], resize=(Resize("ns/low", 6, 2),)), {"ns/high": "all"}),
        (Plan(bind=BINDS[:1], suspend=(Suspend("ns/low"),)), {"ns/high": "all"}),
        (Plan(bind=BINDS[1:], resize=(Resize("ns/low", 6, 2),)), {}),
    ],
)
def test_smaller_sizes_count_as_evictions_do(plan: Plan, found: dict[str, str]) -> None:
    of = scene(running=6)
    assert {} == uncovered(plan, plan, of)
    assert found == uncovered(plan, replace(plan, resize=(), suspend=()), of)
