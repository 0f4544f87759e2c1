"""capacity: queues declare what they deserve; limits and guarantees hold, also in a tree."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.support.confs import CAPACITY_GUIDE

from maar.config.config import Config
from maar.model.jobs import Phase
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.resources import UNLIMITED
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.plugins.capacity import deserved_by, tree_limits
from maar.session.hooks import Claim
from maar.session.session import Session
from maar.testing.builders import GPU, Gang, cluster, gang, node
from maar.testing.scenario import configured, scene

TEXT = """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, arguments: {gang.eviction: whole}}
- plugins:
  - {name: predicates}
  - {name: capacity}
"""
FLAT = configured(TEXT)
TREE = configured(TEXT.replace("{name: capacity}", "{name: capacity, enableHierarchy: true}"))


def tree_with_level(level: int) -> Config:
    capacity = f"{{name: capacity, enableHierarchy: true, arguments: {{ancestorReclaimLevel: {level}}}}}"
    return configured(TEXT.replace("{name: capacity}", capacity))


def gpus(amount: int) -> dict[str, int]:
    return {GPU: amount}


def singles(queue: str, count: int, **fields: Any) -> list[Gang]:
    return [gang(f"{queue}-{i}", 1, gpu=1, queue=queue, **fields) for i in range(count)]


def _queues(tasks: list[str]) -> Counter[str]:
    return Counter(task.removeprefix("ns/").split("-")[0] for task in tasks)


def bound(plans: list[Plan]) -> Counter[str]:
    return _queues([b.task for plan in plans for b in plan.bind])


def evicted(plans: list[Plan]) -> Counter[str]:
    return _queues([e.task for plan in plans for e in plan.evict])


def reasons(plan: Plan, job: str) -> list[str]:
    return [r.message for w in plan.waiting if w.job == f"ns/{job}" for r in w.reasons]


def order(world: Cluster, config: Config) -> list[str]:
    session = Session(Snapshot(world), config, 0.0)
    session.open()
    return [q.name for q in sorted(session.snapshot.queues.queues, key=session.hooks.queue_key)]


# -- flat


def test_a_queue_has_more_than_it_deserves_while_no_other_wants_it() -> None:
    parts = (node("n1", gpu=8), Queue("a", deserved=gpus(2)), Queue("b", deserved=gpus(6)), singles("a", 8))
    assert {"a": 8} == bound(scene(cluster(*parts), FLAT))


def test_a_queue_gets_back_what_it_deserves_and_no_more() -> None:
    parts = (
        node("n1", gpu=8),
        Queue("a", deserved=gpus(2)),
        Queue("b", deserved=gpus(6)),
        singles("a", 8, on=["n1"]),
        singles("b", 8),
    )
    plans = scene(cluster(*parts), FLAT)
    assert {"a": 6} == evicted(plans)
    assert {"b": 6} == bound(plans)


def test_a_queue_stops_at_its_capability() -> None:
    parts = (node("n1", gpu=8), Queue("a", deserved=gpus(2), capability=gpus(3)), singles("a", 8))
    plans = scene(cluster(*parts), FLAT)
    assert {"a": 3} == bound(plans)
    assert ["queue `a` may have 3 nvidia.com/gpu (capability), has 3, asks for 1 more"] == reasons(plans[0], "a-7")


def test_what_is_guaranteed_to_others_is_not_lent() -> None:
    parts = (node("n1", gpu=8), Queue("a"), Queue("b", guarantee=gpus(3)), singles("a", 8))
    assert {"a": 5} == bound(scene(cluster(*parts), FLAT))


def test_a_guarantee_is_kept_even_above_what_is_deserved() -> None:
    """`a` deserves less than it is guaranteed: its deserved amount is raised to the guarantee, and it keeps it."""
    parts = (
        node("n1", gpu=8),
        Queue("a", deserved=gpus(1), guarantee=gpus(5)),
        Queue("b", deserved=gpus(8)),
        singles("a", 8, on=["n1"]),
        singles("b", 8),
    )
    assert {"a": 3} == evicted(scene(cluster(*parts), FLAT))


def test_a_queue_that_deserves_nothing_of_it_loses_all_of_it_first() -> None:
    parts = (
        node("n1", gpu=8),
        Queue("guest"),
        Queue("a", deserved=gpus(4)),
        Queue("b", deserved=gpus(4)),
        singles("guest", 4, on=["n1"]),
        singles("b", 4, on=["n1"]),
        singles("a", 4),
    )
    assert {"guest": 4} == evicted(scene(cluster(*parts), FLAT))


@pytest.mark.parametrize("config", [FLAT, configured(CAPACITY_GUIDE)], ids=["whole gangs", "capacity guide"])
def test_a_queue_deserves_none_of_what_it_declares_with_zero(config: Config) -> None:
    """`guest` is within its CPU; only the 0 that is written out makes its GPUs go."""

    def parts(deserved: dict[str, int]) -> Cluster:
        return cluster(
            node("n1", gpu=8),
            Queue("guest", deserved=deserved),
            Queue("a", deserved={"cpu": 8000, GPU: 4}),
            gang("guest-0", 8, gpu=1, minimum=1, on=["n1"] * 8, queue="guest"),
            gang("a-0", 4, gpu=1, queue="a"),
        )

    plans = scene(parts({"cpu": 16000, GPU: 0}), config)
    assert {"guest": 4} == evicted(plans)
    assert {"a": 4} == bound(plans)
    assert {} == evicted(scene(parts({"cpu": 16000}), config))


def test_any_amount_of_what_a_queue_declares_with_zero_is_a_full_share() -> None:
    world = cluster(
        node("n1", gpu=8),
        Queue("zero", deserved={"cpu": 16000, GPU: 0}),
        Queue("half", deserved={"cpu": 4000}),
        Queue("open", deserved={"cpu": 16000}),
        *(gang(f"{name}-0", 2, gpu=1, on=["n1", "n1"], queue=name) for name in ("zero", "half", "open")),
    )
    asked = ("open", "half", "zero")
    assert list(asked) == [name for name in order(world, FLAT) if name in asked]


def test_nothing_is_taken_that_the_claimant_cannot_use() -> None:
    """The guest holds only CPU, so a claim for GPUs does not take from it."""
    world = cluster(
        node("n1", gpu=1),
        Queue("guest"),
        Queue("a", deserved=gpus(1)),
        gang("guest-0", 1, on=["n1"], memory=0, queue="guest"),
        gang("a-0", 1, gpu=1, cpu=0, memory=0, queue="a"),
        gang("a-1", 1, gpu=1, queue="a"),
    )
    session = Session(Snapshot(world), FLAT, 0.0)
    session.open()
    theirs = session.snapshot.jobs.members[session.snapshot.jobs.number["ns/guest-0"]]
    for name, expected in (("ns/a-0", False), ("ns/a-1", True)):
        job = session.job(session.snapshot.jobs.number[name])
        shape = int(session.snapshot.tasks.shape[session.tasks_of(job, Status.PENDING)][0])
        assert [expected] == session.hooks.reclaimable[0].call(Claim(job, shape, True), theirs).tolist()  # type: ignore[union-attr]


def test_a_queue_takes_nothing_beyond_what_it_deserves_or_may_have() -> None:
    running = singles("guest", 8, on=["n1"])
    for claimant in (Queue("a"), Queue("a", deserved=gpus(3)), Queue("a", deserved=gpus(4), capability=gpus(3))):
        parts = (
            node("n1", gpu=8),
            Queue("guest"),
            claimant,
            running,
            gang("a-0", 4, gpu=1, cpu=0, memory=0, queue="a"),
        )
        assert () == scene(cluster(*parts), FLAT)[0].evict
    enough = Queue("a", deserved=gpus(4), capability=gpus(4))
    parts = (node("n1", gpu=8), Queue("guest"), enough, running, gang("a-0", 4, gpu=1, cpu=0, memory=0, queue="a"))
    assert {"guest": 4} == evicted(scene(cluster(*parts), FLAT))


def test_queues_that_deserve_nothing_go_after_those_that_have_less_than_they_deserve() -> None:
    world = cluster(
        node("n1", gpu=8),
        Queue("guest"),
        Queue("full", deserved=gpus(2)),
        Queue("hungry", deserved=gpus(4)),
        Queue("urgent", priority=1),
        singles("full", 2, on=["n1"]),
        singles("hungry", 1, on=["n1"]),
    )
    asked = ("urgent", "hungry", "full", "guest")
    assert list(asked) == [name for name in order(world, FLAT) if name in asked]


def test_flat_queues_ignore_parents() -> None:
    parts = (node("n1", gpu=8), Queue("org", capability=gpus(2)), Queue("a", parent="org"), singles("a", 4))
    assert {"a": 4} == bound(scene(cluster(*parts), FLAT))
    assert {"a": 2} == bound(scene(cluster(*parts), TREE))


def test_a_closed_queue_takes_nothing_new() -> None:
    parts = (node("n1", gpu=8), Queue("a", open=False, deserved=gpus(8)), singles("a", 1))
    plans = scene(cluster(*parts), FLAT)
    assert {} == bound(plans)
    assert ["queue `a` is closed"] == reasons(plans[0], "a-0")


# -- in a tree


def test_only_leaves_take_jobs() -> None:
    parts = (node("n1", gpu=8), Queue("org"), Queue("a", parent="org"), singles("a", 1), singles("org", 1))
    plans = scene(cluster(*parts), TREE)
    assert {"a": 1} == bound(plans)
    (waiting,) = plans[0].waiting
    assert ("ns/org-0", ["QueueNotLeaf"]) == (waiting.job, [r.code for r in waiting.reasons])


def test_a_queue_above_limits_all_below_it_together() -> None:
    parts = (
        node("n1", gpu=8),
        Queue("org", capability=gpus(5)),
        Queue("a", parent="org"),
        Queue("b", parent="org"),
        singles("a", 4),
        singles("b", 4),
    )
    plans = scene(cluster(*parts), TREE)
    assert 5 == bound(plans).total()
    assert ["queue `org` may have 5 nvidia.com/gpu (capability), has 5, asks for 1 more"] == reasons(plans[0], "b-3")


def test_a_child_may_not_have_more_than_its_parent_whatever_it_says() -> None:
    world = cluster(
        node("n1", gpu=8),
        Queue("org", capability=gpus(5)),
        Queue("a", parent="org", capability=gpus(7), deserved=gpus(7)),
        Queue("b", parent="org", guarantee=gpus(2)),
    )
    session = Session(Snapshot(world), TREE, 0.0)
    queues, d = session.snapshot.queues, session.snapshot.axes.index[GPU]
    guarantee = [session.snapshot.axes.row(q.guarantee or {}) for q in queues.queues]
    limits = tree_limits(session, guarantee)
    deserved = deserved_by(session, guarantee, limits)
    assert {"a": 3, "b": 5, "org": 5, "root": 8, "default": 8} == {
        q.name: limits[i][d] for i, q in enumerate(queues.queues)
    }
    assert (3, 2) == (deserved[queues.number["a"]][d], deserved[queues.number["b"]][d])
    assert all(row[session.snapshot.axes.pods] == UNLIMITED for row in limits)


def test_shares_are_compared_from_the_root_down() -> None:
    """`a1` has less of its share than `b1`, but its organisation has more of its own share: `b1` goes first."""
    world = cluster(
        node("n1", gpu=16),
        Queue("a", deserved=gpus(4)),
        Queue("a1", parent="a", deserved=gpus(2)),
        Queue("a2", parent="a", deserved=gpus(2)),
        Queue("b", deserved=gpus(8)),
        Queue("b1", parent="b", deserved=gpus(2)),
        singles("a2", 3, on=["n1"]),
        singles("b1", 1, on=["n1"]),
    )
    leaves = ("a1", "a2", "b1")
    assert ["b1", "a1", "a2"] == [name for name in order(world, TREE) if name in leaves]
    assert ["a1", "b1", "a2"] == [name for name in order(world, FLAT) if name in leaves]


def organisations(*running: list[Gang], claim: Gang) -> Cluster:
    return cluster(
        node("n1", gpu=12),
        Queue("a", deserved=gpus(4)),
        Queue("a1", parent="a", deserved=gpus(1)),
        Queue("a2", parent="a", deserved=gpus(3)),
        Queue("b", deserved=gpus(4)),
        Queue("b1", parent="b", deserved=gpus(4)),
        Queue("c", deserved=gpus(4)),
        Queue("c1", parent="c", deserved=gpus(4)),
        *running,
        claim,
    )


def test_an_organisation_within_its_part_loses_nothing_to_another() -> None:
    """`a1` has more than its share, but organisation `a` has not: the claim of `c1` takes only from `b1`."""
    world = organisations(singles("a1", 4, on=["n1"]), singles("b1", 8, on=["n1"]), claim=singles("c1", 1)[0])
    assert {"b1": 1} == evicted(scene(world, TREE))
    assert {"b1": 1} == evicted(scene(world, tree_with_level(1)))


def test_level_0_looks_at_leaves_alone() -> None:
    """As in Volcano's default: a queue above its own share loses, whatever its organisation has."""
    world = organisations(singles("a1", 12, on=["n1"], priority=0), claim=singles("c1", 1)[0])
    within = organisations(
        singles("a1", 4, on=["n1"]),
        singles("b1", 8, on=["n1"], task={"preemptable": False}),
        claim=singles("c1", 1)[0],
    )
    assert {"a1": 1} == evicted(scene(world, TREE))
    assert {"a1": 1} == evicted(scene(within, tree_with_level(0)))
    assert {} == evicted(scene(within, TREE))


def test_a_sister_queue_takes_back_inside_its_organisation() -> None:
    world = organisations(
        singles("a1", 4, on=["n1"]), singles("b1", 8, on=["n1"], priority=5), claim=gang("a2-0", 3, gpu=1, queue="a2")
    )
    assert {"a1": 3} == evicted(scene(world, TREE))


@pytest.mark.parametrize(("level", "expected"), [(0, {}), (1, {"guest": 1})])
def test_an_ancestor_claims_for_a_queue_that_deserves_nothing_itself(level: int, expected: dict[str, int]) -> None:
    parts = (
        node("n1", gpu=4),
        Queue("org", deserved=gpus(1)),
        Queue("a", parent="org"),
        Queue("guest"),
        singles("guest", 4, on=["n1"]),
        singles("a", 2, cpu=0, memory=0),
    )
    assert expected == evicted(scene(cluster(*parts), tree_with_level(level)))


@pytest.mark.parametrize("level", [1, 2])
def test_kin_without_a_part_of_their_own_take_nothing_from_each_other(level: int) -> None:
    """Both claim for the same organisation: they would take the same room back and forth."""
    parts = (
        node("n1", gpu=4),
        Queue("org", deserved=gpus(8)),
        Queue("a", parent="org"),
        Queue("b", parent="org"),
        singles("b", 4, on=["n1"]),
        singles("a", 4),
    )
    assert {} == evicted(scene(cluster(*parts), tree_with_level(level)))


def test_victims_come_from_the_nearest_kin_first() -> None:
    world = organisations(singles("b1", 1, on=["n1"]), claim=singles("a2", 1)[0])
    session = Session(Snapshot(world), TREE, 0.0)
    session.open()
    (rank,) = (entry.call for entry in session.hooks.victim_queue_order)
    claimant = session.job(session.snapshot.jobs.number["ns/a2-0"])
    near, far = (next(q for q in session.snapshot.queues.queues if q.name == name) for name in ("a1", "b1"))
    assert rank(near, claimant) < rank(far, claimant)


# -- admission


def test_groups_are_admitted_while_every_queue_above_has_room() -> None:
    def admitted(config: Config, amount: int) -> bool:
        group = gang("a-g", 0, minimum=1, queue="a", phase=Phase.PENDING, min_resources=gpus(amount))
        before = gang("b-g", 0, minimum=1, queue="b", phase=Phase.INQUEUE, min_resources=gpus(2))
        world = cluster(
            node("n1", gpu=16),
            Queue("org", capability=gpus(8)),
            Queue("a", parent="org", capability=gpus(7)),
            Queue("b", parent="org"),
            singles("b", 1, on=["n1"]),
            group,
            before,
        )
        return bool(scene(world, config)[0].admit)

    assert (True, False) == (admitted(TREE, 5), admitted(TREE, 6))
    assert (True, False) == (admitted(FLAT, 7), admitted(FLAT, 8))


def test_a_group_in_a_queue_that_is_no_leaf_is_not_admitted() -> None:
    group = gang("org-g", 0, minimum=1, queue="org", phase=Phase.PENDING, min_resources=gpus(1))
    plans = scene(cluster(node("n1", gpu=8), Queue("org"), Queue("a", parent="org"), group), TREE)
    assert () == plans[0].admit
    assert ["QueueNotLeaf"] == [r.code for w in plans[0].waiting for r in w.reasons]
