"""proportion: queues share by weight what they request, and take it back from queues that have more."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from maar.decide import decide
from maar.model.jobs import Phase
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.plugins.proportion import Whole, deserved_by, requested
from maar.plugins.support.quotas import flat_limits, guarantees
from maar.session.hooks import Claim
from maar.session.session import Session
from maar.testing.builders import GPU, Gang, cluster, gang, node
from maar.testing.scenario import configured, scene

CONFIG = configured("""
actions: "enqueue, allocate, reclaim"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, arguments: {gang.eviction: whole}}
- plugins:
  - {name: predicates}
  - {name: proportion}
""")


def bound(plans: list[Plan]) -> Counter[str]:
    """How many pods were bound, by the first letter of their names, which is the queue."""
    return Counter(b.task.removeprefix("ns/")[0] for plan in plans for b in plan.bind)


def reasons(plan: Plan, job: str) -> list[str]:
    return [r.message for w in plan.waiting if w.job == f"ns/{job}" for r in w.reasons]


def opened(world: Cluster) -> Session:
    session = Session(Snapshot(world), CONFIG, 0.0)
    session.open()
    return session


def gpus(world: Cluster) -> dict[str, int]:
    """How many GPUs each queue deserves."""
    session = opened(world)
    d = session.snapshot.axes.index[GPU]
    rows = deserved_by(
        session, requested(session, Whole.of(session)), owed := guarantees(session), flat_limits(session, owed)
    )
    return {q.name: row[d] for q, row in zip(session.snapshot.queues.queues, rows, strict=True) if q.name != "root"}


def singles(letter: str, count: int, **fields: Any) -> list[Gang]:
    return [gang(f"{letter}{i}", 1, gpu=1, queue=letter, **fields) for i in range(count)]


def test_queues_get_room_by_weight() -> None:
    parts = (node("n1", gpu=8), Queue("a", weight=3), Queue("b"), singles("a", 8), singles("b", 8))
    plans = scene(cluster(*parts), CONFIG)
    assert {"a": 6, "b": 2} == bound(plans)
    assert "queue `b` may have 2 nvidia.com/gpu (deserved), has 2, asks for 1 more" in reasons(plans[0], "b7")


def test_a_queue_gets_what_the_other_does_not_want() -> None:
    parts = (node("n1", gpu=8), Queue("a"), Queue("b"), singles("a", 2), singles("b", 8))
    assert {"a": 2, "b": 6} == bound(scene(cluster(*parts), CONFIG))


def test_no_device_idles_because_weights_do_not_divide_it() -> None:
    jobs = [job for q in "abc" for job in singles(q, 8)]
    world = cluster(node("n1", gpu=8), [Queue(q) for q in "abc"], jobs)
    assert {"a": 3, "b": 3, "c": 2} == bound(scene(world, CONFIG))


def test_a_queue_has_no_more_than_its_capability() -> None:
    parts = (node("n1", gpu=8), Queue("a", capability={GPU: 3}), singles("a", 8))
    plans = scene(cluster(*parts), CONFIG)
    assert {"a": 3} == bound(plans)
    (reason,) = next(w.reasons for w in plans[0].waiting if w.job == "ns/a7")
    assert ("proportion", GPU, "a", 0) == (reason.plugin, reason.resource, reason.queue, reason.has)


def test_a_capability_may_limit_the_number_of_pods() -> None:
    parts = (node("n1", gpu=8), Queue("a", capability={"pods": 2}), singles("a", 8))
    plans = scene(cluster(*parts), CONFIG)
    assert {"a": 2} == bound(plans)
    assert "queue `a` may have 2 pods (capability), has 2, asks for 1 more" in reasons(plans[0], "a7")


def test_what_is_guaranteed_to_others_is_not_lent() -> None:
    parts = (node("n1", gpu=8), Queue("a"), Queue("b", guarantee={GPU: 6}), singles("a", 8))
    assert {"a": 2} == bound(scene(cluster(*parts), CONFIG))


def test_a_gang_that_is_more_than_its_queue_deserves_waits_whole() -> None:
    parts = (
        node("n1", gpu=8),
        Queue("a"),
        Queue("b"),
        gang("a", 5, gpu=1, queue="a"),
        gang("b", 4, gpu=1, queue="b"),
    )
    plans = scene(cluster(*parts), CONFIG)
    assert {"b": 4} == bound(plans)
    assert "queue `a` may have 4 nvidia.com/gpu (deserved), has 0, asks for 5 more" in reasons(plans[0], "a")


def test_a_closed_queue_gets_nothing_and_keeps_no_room_from_others() -> None:
    parts = (node("n1", gpu=8), Queue("a", open=False), Queue("b"), singles("a", 8), singles("b", 8))
    plans = scene(cluster(*parts), CONFIG)
    assert {"b": 8} == bound(plans)
    assert "queue `a` is closed" in reasons(plans[0], "a0")


def test_queues_of_higher_priority_go_first_then_those_with_less_of_their_part() -> None:
    session = opened(
        cluster(
            node("n1", gpu=8),
            Queue("urgent", priority=5),
            Queue("a"),
            Queue("b", weight=3),
            gang("a", 1, gpu=2, on=["n1"], queue="a"),
            gang("b", 1, gpu=3, on=["n1"], queue="b"),
            gang("u", 1, gpu=1, on=["n1"], queue="urgent"),
            [gang(f"more-{q}", 8, gpu=1, queue=q) for q in ("a", "b", "urgent")],
        )
    )
    queues = sorted(session.snapshot.queues.queues, key=session.hooks.queue_key)
    assert ["urgent", "b", "a"] == [q.name for q in queues if q.name in ("urgent", "a", "b")]


def test_half_the_cluster_comes_back_and_no_more() -> None:
    parts = (
        node("n1", gpu=8),
        Queue("a"),
        Queue("b"),
        singles("b", 8, on=["n1"]),
        singles("a", 8),
    )
    plans = scene(cluster(*parts), CONFIG)
    assert 4 == sum(len(plan.evict) for plan in plans)
    assert {"a": 4} == bound(plans)


def test_what_a_queue_deserves_of_one_resource_is_not_taken_because_it_has_much_of_another() -> None:
    """`b` has more CPU than it deserves, but not more GPUs: a claim for GPUs takes nothing from it."""
    parts = (
        node("n1", gpu=8, cpu=16),
        Queue("a"),
        Queue("b"),
        gang("b", 4, gpu=1, cpu=3, on=["n1"] * 4, queue="b"),
        gang("c", 4, gpu=1, cpu=1, on=["n1"] * 4),
        gang("a", 1, gpu=1, cpu=0, queue="a"),
        gang("cpus", 1, gpu=0, cpu=9, queue="a"),
    )
    session = opened(cluster(*parts))
    (asking,) = (j for j in session.snapshot.jobs.jobs if j.key == "ns/a")
    (shape,) = session.snapshot.tasks.shape[session.tasks_of(asking, Status.PENDING)].tolist()
    theirs = session.snapshot.jobs.members[session.snapshot.jobs.number["ns/b"]]
    wants_gpu = Claim(asking, shape, across_queues=True)
    assert not session.hooks.victims(wants_gpu, theirs).any()


def test_tasks_are_judged_in_turn_or_each_alone() -> None:
    parts = (node("n1", gpu=8), Queue("a"), Queue("b"), gang("b", 8, gpu=1, on=["n1"] * 8, queue="b"), singles("a", 8))
    session = opened(cluster(*parts))
    asking = session.job(session.snapshot.jobs.number["ns/a0"])
    shape = int(session.snapshot.tasks.shape[session.tasks_of(asking, Status.PENDING)][0])
    theirs = session.snapshot.jobs.members[session.snapshot.jobs.number["ns/b"]]
    vote = session.hooks.reclaimable[0].call
    assert [True] * 4 + [False] * 4 == np.asarray(vote(Claim(asking, shape, True), theirs)).tolist()
    assert np.asarray(vote(Claim(asking, shape, True, together=False), theirs)).all()


def test_only_reclaimable_queues_lose_anything() -> None:
    parts = (node("n1", gpu=8), Queue("a"), Queue("b", reclaimable=False), singles("b", 8, on=["n1"]), singles("a", 8))
    assert () == scene(cluster(*parts), CONFIG)[0].evict


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ((Queue("a"), Queue("b")), {"a": 4, "b": 4, "default": 0}),
        ((Queue("a", weight=3), Queue("b")), {"a": 6, "b": 2, "default": 0}),
        ((Queue("a", guarantee={GPU: 7}), Queue("b")), {"a": 7, "b": 1, "default": 0}),
        ((Queue("a", capability={GPU: 1}), Queue("b")), {"a": 1, "b": 7, "default": 0}),
        ((Queue("a", parent="b"), Queue("b")), {"a": 4, "b": 4, "default": 0}),  # flat: parents do not matter
    ],
)
def test_what_queues_deserve(queues: tuple[Queue, ...], expected: dict[str, int]) -> None:
    assert expected == gpus(cluster(node("n1", gpu=8), queues, singles("a", 8), singles("b", 8)))


def test_groups_without_pods_ask_for_what_they_say_they_need() -> None:
    waiting = gang("a", 0, minimum=2, queue="a", phase=Phase.PENDING, min_resources={GPU: 6})
    assert {"a": 4, "b": 4, "default": 0} == gpus(
        cluster(node("n1", gpu=8), Queue("a"), Queue("b"), waiting, singles("b", 8))
    )


def test_an_invalid_job_keeps_no_room_from_others() -> None:
    senseless = gang("a", 8, gpu=1, queue="a", broken="minMember is negative")
    assert {"a": 0, "b": 8, "default": 0} == gpus(
        cluster(node("n1", gpu=8), Queue("a"), Queue("b"), senseless, singles("b", 8))
    )


def test_groups_are_admitted_up_to_the_capability_surplus_aside() -> None:
    """The limit is 8 GPUs; 6 are used, of which 4 are surplus that others may take. So 6 more fit, not 7."""

    def admitted(*amounts: int) -> set[str]:
        groups = [
            gang(f"g{i}", 0, minimum=1, queue="a", phase=Phase.PENDING, min_resources={GPU: n}, created=float(i))
            for i, n in enumerate(amounts)
        ]
        running = gang("r", 6, minimum=2, gpu=1, on=["n1"] * 6, queue="a", min_resources={GPU: 2}, phase=Phase.RUNNING)
        world = cluster(node("n1", gpu=16), Queue("a", capability={GPU: 8}), running, groups)
        return {a.job for plan in scene(world, CONFIG) for a in plan.admit}

    assert {"ns/g0"} == admitted(6)
    assert set() == admitted(7)
    assert {"ns/g0", "ns/g2"} == admitted(4, 3, 2)  # a group that does not fit does not block the next


def test_the_refusal_of_a_group_says_what_its_queue_has() -> None:
    group = gang("g", 0, minimum=1, queue="a", phase=Phase.PENDING, min_resources={GPU: 2})
    before = gang("f", 0, minimum=1, queue="a", phase=Phase.INQUEUE, min_resources={GPU: 3})
    running = gang("r", 1, gpu=4, on=["n1"], queue="a")
    plan = scene(cluster(node("n1", gpu=16), Queue("a", capability={GPU: 8}), group, before, running), CONFIG)[0]
    assert [
        "queue `a` may have 8 nvidia.com/gpu (capability), has 4 and 3 promised to admitted groups, asks for 2 more"
    ] == reasons(plan, "g")


def test_the_order_in_which_queues_come_does_not_matter() -> None:
    queues = [Queue("a"), Queue("b", weight=2), Queue("c", guarantee={GPU: 1})]
    jobs = [gang(f"{q}{i}", 1, gpu=1, queue=q) for q in "abc" for i in range(5)]
    forth = cluster(node("n1", gpu=7), queues, jobs)
    back = cluster(node("n1", gpu=7), reversed(queues), reversed(jobs))
    assert decide(Snapshot(forth), CONFIG, 0.0) == decide(Snapshot(back), CONFIG, 0.0)


def test_no_room_is_kept_for_a_gang_that_the_cluster_could_never_hold() -> None:
    parts = (
        node("n0", cpu=7, gpu=1),
        Queue("blue"),
        gang("hopeless", 3, gpu=2, queue="blue"),
        gang("many", 9, gpu=1, queue="blue"),
        gang("fits", gpu=1),
    )
    plans = scene(cluster(*parts), CONFIG)
    assert ["ns/fits-0"] == [b.task for b in plans[0].bind]


def test_what_a_queue_that_has_its_share_says_on_objects_does_not_depend_on_its_other_jobs() -> None:
    queues = (Queue("a"), Queue("b"))
    for others in (1, 5):
        running = gang("a-runs", 4, gpu=1, queue="a", on=["n1"] * 4)
        world = cluster(
            node("n1", cpu=8, memory="8Gi", gpu=8),
            queues,
            running,
            singles("a", others),
            gang("b0", 4, gpu=1, queue="b"),
        )
        session = opened(world)
        reason = session.hooks.is_overused(session.snapshot.queues.queues[session.snapshot.queues.number["a"]])
        assert reason is not None
        assert f"asks for {others} more" in reason.message, "all jobs of the queue together"
        assert "queue `a` already has all it deserves" == reason.on_objects
