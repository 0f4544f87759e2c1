"""reclaim: a queue gets what it deserves back from queues that have more, in whole gangs."""

from __future__ import annotations

from tests.support.confs import RECLAIM

from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.testing.builders import cluster, gang, node
from maar.testing.scenario import configured, scene

CONFIG = configured(RECLAIM)
HALVES = (Queue("a"), Queue("b"))


def jobs_evicted(plan: Plan) -> set[str]:
    return {e.task.rsplit("-", 1)[0] for e in plan.evict}


def test_half_the_cluster_comes_back_in_whole_gangs() -> None:
    parts = (
        node("n1", gpu=8),
        HALVES,
        [gang(f"b{i}", 2, gpu=1, on=["n1", "n1"], queue="b") for i in range(4)],
        gang("a", 2, gpu=2, queue="a"),
    )
    plans = scene(cluster(*parts), CONFIG)
    assert len(jobs_evicted(plans[0])) == 2
    assert len(plans[0].evict) == 4
    assert plans[0].evict[0].reason.endswith("for `ns/a` (queue `a`)")
    assert {b.task for b in plans[1].bind} == {"ns/a-0", "ns/a-1"}


def test_a_queue_at_its_share_takes_nothing() -> None:
    parts = (
        node("n1", gpu=8),
        HALVES,
        gang("mine", 1, gpu=4, on=["n1"], queue="a"),
        gang("theirs", 1, gpu=4, on=["n1"], queue="b"),
        gang("more", 1, gpu=1, queue="a", priority=99),
    )
    assert scene(cluster(*parts), CONFIG)[0].evict == ()


def test_a_queue_that_is_not_reclaimable_keeps_what_it_has() -> None:
    parts = (
        node("n1", gpu=8),
        Queue("a"),
        Queue("b", reclaimable=False),
        [gang(f"b{i}", 1, gpu=1, on=["n1"], queue="b") for i in range(8)],
        gang("a", 1, gpu=4, queue="a"),
    )
    assert scene(cluster(*parts), CONFIG)[0].evict == ()


def test_a_gang_is_not_divided_and_goes_if_part_of_it_is_above_the_share() -> None:
    """`b` deserves half and runs one gang on everything; `a` would get nothing of its half while it runs."""
    parts = (node("n1", gpu=8), HALVES, gang("b", 8, gpu=1, on=["n1"] * 8, queue="b"), gang("a", 1, gpu=4, queue="a"))
    assert jobs_evicted(scene(cluster(*parts), CONFIG)[0]) == {"ns/b"}


def test_a_gang_within_the_share_of_its_queue_stays() -> None:
    parts = (
        node("n1", gpu=8),
        HALVES,
        gang("b", 4, gpu=1, on=["n1"] * 4, queue="b"),
        gang("more", 1, gpu=1, on=["n1"], queue="b"),
        gang("a", 1, gpu=4, queue="a"),
    )
    assert jobs_evicted(scene(cluster(*parts), CONFIG)[0]) == {"ns/more"}


def test_surplus_of_an_elastic_job_goes_first() -> None:
    parts = (
        node("n1", gpu=8),
        HALVES,
        gang("rigid", 1, gpu=2, on=["n1"], queue="b", priority=-5),
        gang("elastic", 6, minimum=2, gpu=1, on=["n1"] * 6, queue="b"),
        gang("a", 1, gpu=4, queue="a"),
    )
    plans = scene(cluster(*parts), CONFIG)
    assert {e.task for e in plans[0].evict} == {f"ns/elastic-{i}" for i in (2, 3, 4, 5)}


def test_priority_does_not_matter_between_queues() -> None:
    parts = (
        node("n1", gpu=8),
        HALVES,
        [gang(f"b{i}", 1, gpu=2, on=["n1"], queue="b", priority=100) for i in range(4)],
        gang("a", 1, gpu=4, queue="a", priority=0),
    )
    assert len(scene(cluster(*parts), CONFIG)[0].evict) == 2


def test_a_job_that_would_not_fit_takes_nothing() -> None:
    parts = (
        node("n1", gpu=4),
        node("n2", gpu=4),
        HALVES,
        [gang(f"b{i}", 1, gpu=2, on=[n], queue="b") for i, n in enumerate(("n1", "n1", "n2", "n2"))],
        gang("a", 1, gpu=8, queue="a"),
    )
    assert scene(cluster(*parts), CONFIG)[0].evict == ()


def test_a_queue_takes_back_from_its_sibling_while_their_parent_is_at_its_limit() -> None:
    config = configured(RECLAIM.replace("{name: proportion}", "{name: capacity, enableHierarchy: true}"))
    half = {"nvidia.com/gpu": 4}
    parts = (
        [node(f"n{i}", gpu=8) for i in (1, 2)],
        Queue("dept", capability={"nvidia.com/gpu": 8}, deserved={"nvidia.com/gpu": 8}),
        Queue("a", parent="dept", deserved=half),
        Queue("b", parent="dept", deserved=half),
        [gang(f"b{i}", 1, gpu=2, on=["n1"], queue="b") for i in range(4)],
        gang("a", 1, gpu=4, queue="a"),
    )
    plans = scene(cluster(*parts), config)
    assert len(plans[0].evict) == 2
    assert [b.task for p in plans for b in p.bind] == ["ns/a-0"]


def test_what_was_refused_to_one_job_is_refused_to_the_next_for_the_same_reason() -> None:
    """The first job takes all that `b` has above its share. Two more find only what `b` deserves."""
    parts = (
        [node(f"n{i}", gpu=8) for i in range(3)],
        node("cordoned", gpu=8, unschedulable=True),
        HALVES,
        [gang(f"b{i}", 1, gpu=8, on=[f"n{i}"], queue="b") for i in range(3)],
        [gang(f"a{i}", 1, gpu=8, queue="a", created=i) for i in range(3)],
    )
    plan = scene(cluster(*parts), CONFIG)[0]
    assert jobs_evicted(plan) == {"ns/b0"}
    why = "the minimum of gang `ns/b1` is within what its queue `b` deserves or is guaranteed"
    assert [why in wait.reasons[-1].message for wait in plan.waiting] == [False, True, True]
