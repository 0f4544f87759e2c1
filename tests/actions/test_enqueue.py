"""enqueue: groups are admitted by votes, by idle room, and by room that evictions could make."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from maar.actions.enqueue import Enqueue
from maar.config.config import Config, NoArguments
from maar.decide import decide
from maar.model.jobs import Phase
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.session.hooks import JobVote, Vote
from maar.session.register import Register
from maar.session.session import Session
from maar.testing.builders import GPU, Gang, cluster, gang, node, shape, tasks
from maar.testing.scenario import configured, scene


def config(actions: str = "enqueue, allocate", *plugins: str) -> Config:
    rest = "".join(f"  - {{name: {p}}}\n" for p in ("predicates", *plugins))
    return configured(f"""
actions: "{actions}"
tiers:
- plugins:
  - {{name: priority}}
  - {{name: gang, arguments: {{gang.eviction: whole}}}}
- plugins:
{rest}
""")


IDLE_ROOM = config()
PREEMPT = config("enqueue, allocate, preempt")
RECLAIM = config("enqueue, allocate, reclaim", "proportion", "overcommit")


def group(name: str, gpus: int | None = None, **fields: Any) -> Gang:
    """A group whose pods do not exist yet."""
    needs = None if gpus is None else {GPU: gpus}
    return gang(name, 0, **{"minimum": 1, "phase": Phase.PENDING, "min_resources": needs, **fields})


def admitted(plans: list[Plan]) -> list[str]:
    return [a.job.removeprefix("ns/") for plan in plans for a in plan.admit]


def reasons(plan: Plan, job: str) -> list[tuple[str, str]]:
    return [(r.code, r.message) for w in plan.waiting if w.job == f"ns/{job}" for r in w.reasons]


# -- without evictions


def test_a_group_that_does_not_say_what_it_needs_is_admitted_at_once() -> None:
    assert ["g"] == admitted(scene(cluster(group("g")), IDLE_ROOM))


def test_a_group_is_admitted_into_idle_room_and_a_large_one_blocks_no_other() -> None:
    world = cluster(
        node("n1", gpu=8), group("a", 6, created=1.0), group("b", 3, created=2.0), group("c", 2, created=3.0)
    )
    plans = scene(world, IDLE_ROOM)
    assert ["a", "c"] == admitted(plans)
    assert [("NotEnoughIdle", "needs 3 nvidia.com/gpu, only 2 idle and not promised to other jobs")] == reasons(
        plans[0], "b"
    )


def test_idle_room_is_free_or_releasing_and_not_promised() -> None:
    leaving = tasks("ns/old", 1, shape(gpu=4), on=["n1"], status=Status.RELEASING)
    promised = tasks("ns/next", 1, shape(gpu=2), status=Status.NOMINATED, node="n1")
    for gpus, expected in ((2, ["g"]), (3, [])):
        parts = (node("n1", gpu=4), node("off", gpu=8, unschedulable=True), leaving, promised, group("g", gpus))
        assert expected == admitted([decide(Snapshot(cluster(*parts)), IDLE_ROOM, 0.0)])


def test_groups_go_by_priority() -> None:
    world = cluster(node("n1", gpu=8), group("a", 8), group("b", 8, priority=1))
    assert ["b"] == admitted(scene(world, IDLE_ROOM))


def test_room_is_kept_for_groups_admitted_before_until_their_pods_are_there() -> None:
    before = group("before", 6, phase=Phase.INQUEUE, minimum=2)
    world = cluster(node("n1", gpu=8), before, group("g", 3))
    assert [] == admitted(scene(world, IDLE_ROOM))
    too_large = gang("before", 2, gpu=16, min_resources={GPU: 32}, phase=Phase.INQUEUE)
    assert ["g"] == admitted(scene(cluster(node("n1", gpu=8), too_large, group("g", 3)), IDLE_ROOM))


def test_room_is_kept_for_a_group_that_lacks_the_pod_of_a_role() -> None:
    """Two pods of its minimum of two exist, but none of one role: its operator is still creating them."""
    before = gang("before", 2, gpu=3, min_resources={GPU: 6}, phase=Phase.INQUEUE, role_min={"ps": 1, "worker": 1})
    for roles, expected in ((("worker", "worker"), []), (("worker", "ps"), ["g"])):
        named = (replace(pod, role=role) for pod, role in zip(before.tasks, roles, strict=True))
        world = cluster(node("n1", gpu=8), Gang(before.job, tuple(named)), group("g", 3))
        plan = decide(Snapshot(world), IDLE_ROOM, 0.0)
        assert expected == admitted([plan])


def test_a_closed_queue_admits_no_group() -> None:
    plans = scene(cluster(node("n1", gpu=8), Queue("q", open=False), group("g", queue="q")), IDLE_ROOM)
    assert [] == admitted(plans)
    assert [("QueueClosed", "queue `q` is closed")] == reasons(plans[0], "g")


def test_a_group_in_a_queue_that_does_not_exist_waits_with_that_reason() -> None:
    plans = scene(cluster(node("n1", gpu=8), group("g", 1, queue="nowhere"), group("h", 1)), IDLE_ROOM)
    assert ["h"] == admitted(plans)
    assert ["QueueNotFound"] == [code for code, _ in reasons(plans[0], "g")]


def always(vote: Vote) -> JobVote:
    return lambda job: vote


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([(0, Vote.PERMIT), (1, Vote.REJECT)], True),  # a permit of an earlier tier is enough
        ([(0, Vote.PERMIT), (0, Vote.REJECT)], False),
        ([(0, Vote.ABSTAIN), (1, Vote.REJECT)], False),
        ([(0, Vote.ABSTAIN), (1, Vote.PERMIT)], True),
        ([(0, Vote.ABSTAIN)], False),  # its needs must then fit the idle room, and they do not
    ],
)
def test_votes_combine_by_tier(votes: list[tuple[int, Vote]], expected: bool) -> None:
    session = Session(Snapshot(cluster(node("n1", gpu=1), group("g", 2))), Config((), ()), 0.0)
    for tier, vote in votes:
        Register(session.hooks, f"p{tier}", tier, {}).job_enqueueable(always(vote))
    Enqueue(NoArguments()).execute(session)
    assert expected == bool(session.admitted)
    assert expected != bool(session.notes)


# -- with room that evictions could make


def full(**low: Any) -> Cluster:
    return cluster(
        node("n1", gpu=8),
        gang("low", 2, gpu=2, on=["n1", "n1"], **low),
        gang("same", 1, gpu=4, on=["n1"], priority=5),
    )


def with_group(world: Cluster, *groups: Gang) -> Cluster:
    return replace(world, jobs=(*world.jobs, *(g.job for g in groups)))


def test_a_group_is_admitted_for_room_that_preempt_could_make_and_nothing_is_evicted_yet() -> None:
    plans = scene(with_group(full(), group("g", 4, priority=5)), PREEMPT)
    assert ["g"] == admitted(plans)
    assert all(plan.evict == () for plan in plans)


def test_its_pods_then_preempt() -> None:
    late = gang("g", 2, gpu=2, priority=5, min_resources={GPU: 4})
    world = full()
    plans = scene(replace(world, jobs=(*world.jobs, late.job), tasks=(*world.tasks, *late.tasks)), PREEMPT)
    assert {"ns/low-0", "ns/low-1"} == {e.task for e in plans[0].evict}


def test_not_without_the_action() -> None:
    plans = scene(with_group(full(), group("g", 4, priority=5)), IDLE_ROOM)
    assert [] == admitted(plans)
    assert [("NotEnoughIdle", "needs 4 nvidia.com/gpu, only 0 idle and not promised to other jobs")] == reasons(
        plans[0], "g"
    )


@pytest.mark.parametrize(
    ("low", "asks"),
    [
        ({}, {"gpus": 5, "priority": 5}),  # more than the victims free
        ({}, {"gpus": 4, "priority": 0}),  # no job has a lower priority
        ({}, {"gpus": 4, "priority": 5, "preempts": False}),
        ({"task": {"preemptable": False}}, {"gpus": 4, "priority": 5}),
        ({"queue": "other"}, {"gpus": 4, "priority": 5}),  # preempt stays inside a queue
    ],
)
def test_not_beyond_what_preempt_may_do(low: dict[str, Any], asks: dict[str, Any]) -> None:
    world = with_group(replace(full(**low), queues=(Queue("other"),)), group("g", **asks))
    assert [] == admitted(scene(world, PREEMPT))


@pytest.mark.parametrize(("minimum", "expected"), [(1, ["g"]), (2, [])])
def test_not_for_a_minimum_that_needs_a_pod_that_never_preempts(minimum: int, expected: list[str]) -> None:
    late = gang("g", 2, gpu=2, minimum=minimum, priority=5, min_resources={GPU: 4}, phase=Phase.PENDING)
    silent = replace(late.tasks[0], preempts=False)
    world = full()
    world = replace(world, jobs=(*world.jobs, late.job), tasks=(*world.tasks, silent, *late.tasks[1:]))
    assert expected == admitted(scene(world, PREEMPT))


def test_a_gang_goes_whole_or_not_at_all() -> None:
    """2 of `low`'s 4 pods are enough. If whole gangs may be evicted, it is admitted; if only surplus may, it is not."""
    world = with_group(full(), group("g", 2, priority=5))
    surplus = configured(
        """
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, arguments: {gang.eviction: surplus}}
  - {name: predicates}
"""
    )
    assert ["g"] == admitted(scene(world, PREEMPT))
    assert [] == admitted(scene(world, surplus))
    elastic = with_group(full(minimum=1), group("g", 2, priority=5))
    assert ["g"] == admitted(scene(elastic, surplus))


def test_two_groups_are_not_admitted_for_the_same_room() -> None:
    world = with_group(full(), group("g", 4, priority=6, created=1.0), group("h", 4, priority=5, created=2.0))
    plans = scene(world, PREEMPT)
    assert ["g"] == admitted(plans)


def test_a_group_is_admitted_for_room_that_its_queue_could_take_back() -> None:
    def world(gpus: int) -> Cluster:
        running = [gang(f"b{i}", 1, gpu=1, on=["n1"], queue="b") for i in range(8)]
        return cluster(node("n1", gpu=8), Queue("a"), Queue("b"), running, group("g", gpus, queue="a"))

    plans = scene(world(4), RECLAIM)
    assert ["g"] == admitted(plans)
    assert all(plan.evict == () for plan in plans)
    plans = scene(world(5), RECLAIM)  # it deserves only half
    assert [] == admitted(plans)
    assert ["Overcommitted"] == [code for code, _ in reasons(plans[0], "g")]


def test_a_queue_that_is_not_reclaimable_makes_no_room() -> None:
    running = [gang(f"b{i}", 1, gpu=1, on=["n1"], queue="b") for i in range(8)]
    parts = (node("n1", gpu=8), Queue("a"), Queue("b", reclaimable=False), running, group("g", 4, queue="a"))
    assert [] == admitted(scene(cluster(*parts), RECLAIM))


def test_a_quota_that_preempt_could_free_is_no_obstacle() -> None:
    """Its queue may have 4 and has 4, of lower priority. There is idle room, but not for this queue."""
    actions = config("enqueue, allocate, preempt", "capacity", "overcommit")
    queue = Queue("a", capability={GPU: 4})
    running = gang("low", 1, gpu=4, on=["n1"], queue="a")
    for priority, expected in ((1, ["g"]), (0, [])):
        parts = (node("n1", gpu=16), queue, running, group("g", 2, queue="a", priority=priority))
        assert expected == admitted(scene(cluster(*parts), actions))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.sampled_from("ab")), max_size=6),
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.sampled_from("ab")), max_size=5),
)
def test_safety_trial_evictions_leave_no_change(
    running: list[tuple[int, int, str]], asking: list[tuple[int, int, str]]
) -> None:
    jobs = [
        gang(f"r{i}", n, gpu=1, on=[f"n{i}"] * n, priority=p, queue=q, min_resources={GPU: n}, phase=Phase.RUNNING)
        for i, (n, p, q) in enumerate(running)
    ]
    groups = [group(f"g{i}", n, priority=p, queue=q) for i, (n, p, q) in enumerate(asking)]
    nodes = [node(f"n{i}", gpu=4) for i in range(max(len(jobs), 1))]
    world = cluster(nodes, Queue("a"), Queue("b"), jobs, groups)
    session = Session(
        Snapshot(world), config("enqueue, preempt, reclaim, allocate", "drf", "proportion", "overcommit"), 0.0
    )
    session.open()
    fresh = Session(Snapshot(world), session.config, 0.0)
    Enqueue(NoArguments()).execute(session)
    for name in ("used", "releasing", "nominated", "status", "node", "job_allocated", "job_ready", "queue_allocated"):
        assert (getattr(session.state, name) == getattr(fresh.state, name)).all(), name
    assert fresh.state.soft == session.state.soft
    assert {} == session.evictions
    assert set(session.notes).isdisjoint(j.index for j in session.admitted.values())
    assert len(groups) == len(session.notes) + len(session.admitted)
