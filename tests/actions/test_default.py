"""Maar's default configuration, with all actions and plugins together, in the most important scenes."""

from __future__ import annotations

from collections import Counter

import pytest

from maar.config.file import default_config
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.registry import catalog
from maar.testing.builders import cluster, gang, node
from maar.testing.scenario import cycles, scene

CONFIG = default_config(catalog())


def jobs_evicted(plan: Plan) -> set[str]:
    return {e.task.rsplit("-", 1)[0] for e in plan.evict}


def test_gangs_are_packed_and_start_at_once() -> None:
    plans = scene(cluster([node(f"n{i}", gpu=8) for i in range(4)], gang("a", 4, gpu=4)), CONFIG)
    assert sorted(Counter(b.node for b in plans[0].bind).values()) == [2, 2]


def test_one_whole_gang_of_low_priority_goes_on_a_full_cluster() -> None:
    """The only queue is at its share, the whole cluster: this must not hide which node is cheapest to open."""
    parts = (
        [node(f"n{i}", gpu=8) for i in range(3)],
        gang("a", 1, gpu=4, on=["n0"], priority=1),
        gang("b", 1, gpu=4, on=["n0"], priority=1),
        gang("c", 2, gpu=4, on=["n1", "n1"], priority=2),
        gang("d", 2, gpu=4, on=["n2", "n2"], priority=1),
        gang("high", 1, gpu=8, priority=9),
    )
    plans = scene(cluster(*parts), CONFIG, now=100.0)
    assert jobs_evicted(plans[0]) == {"ns/d"}
    assert [b.task for b in plans[1].bind] == ["ns/high-0"]


@pytest.mark.parametrize(("size", "hours"), [(1, 12), (2, 24)])
def test_a_waiting_gang_is_elected_on_a_full_cluster(size: int, hours: int) -> None:
    """Its queue has all that it may have, but this will end, so locks help. All nodes: after a day."""
    full = [gang(f"x{i}", 1, gpu=8, on=[f"n{i}"]) for i in range(2)]
    scenery = cluster([node(f"n{i}", gpu=8) for i in range(2)], full, gang("wide", size, gpu=8))
    due = hours * 3600.0
    plans, _ = cycles(scenery, CONFIG, 1, now=due - 1)
    assert (None, due) == (plans[0].elect, plans[0].wake_at)
    plans, _ = cycles(scenery, CONFIG, 3, now=due)
    assert [p.elect.job for p in plans if p.elect] == ["ns/wide"] * 3
    assert [len(p.locks) for p in plans] == [1, size, size]


def test_a_gang_that_its_queue_could_never_pay_for_is_not_elected() -> None:
    parts = (
        [node(f"n{i}", gpu=8) for i in range(2)],
        Queue("small", capability={"nvidia.com/gpu": 8}),
        gang("x", 1, gpu=1, on=["n0"]),
        gang("wide", 2, gpu=8, queue="small"),
    )
    plans, _ = cycles(cluster(*parts), CONFIG, 1)
    assert plans[0].elect is None
    assert plans[0].waiting[0].reasons[-1].limit == 8


def test_reasons_do_not_blame_a_queue_that_may_have_everything() -> None:
    plans = scene(cluster(node("n1", gpu=8), gang("x", 1, gpu=8, on=["n1"], priority=9), gang("a", 1, gpu=8)), CONFIG)
    assert [r.message for r in plans[0].waiting[0].reasons] == [
        "0/1 nodes fit: 1 short of nvidia.com/gpu (needs 8, best has 0 free)"
    ]


def test_half_the_cluster_is_reclaimed_in_whole_gangs() -> None:
    parts = (
        [node(f"n{i}", gpu=8) for i in range(2)],
        [Queue("a"), Queue("b")],
        [gang(f"b{i}", 2, gpu=2, on=[f"n{i // 2}"] * 2, queue="b") for i in range(4)],
        gang("a", 2, gpu=4, queue="a"),
    )
    plans = scene(cluster(*parts), CONFIG, now=100.0)
    assert len(jobs_evicted(plans[0])) == 2
    assert len({b.node for p in plans for b in p.bind}) == 1


def test_a_storm_of_claims_ends_with_every_gpu_in_use() -> None:
    parts = (
        [node(f"n{i:02}", gpu=8) for i in range(20)],
        [gang(f"low{i:02}", 4, gpu=2, on=[f"n{i:02}"] * 4, priority=1) for i in range(20)],
        [gang(f"high{i:02}", 3, gpu=4, priority=5 + i % 2, created=float(i)) for i in range(20)],
    )
    plans = scene(cluster(*parts), CONFIG, now=100.0)
    started = Counter(b.task.rsplit("-", 1)[0] for p in plans for b in p.bind)
    assert len(started) == 13
    assert set(started.values()) == {3}
