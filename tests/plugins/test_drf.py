"""drf: the smallest dominant share goes first, for jobs, namespaces and queues in a tree."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest

from maar.config.config import Config
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.plugins.drf import Arguments
from maar.session.hooks import Claim
from maar.session.session import Session
from maar.testing.builders import cluster, gang, node
from maar.testing.scenario import configured, scene

TEXT = """
actions: "allocate, preempt"
tiers:
- plugins:
  - {name: gang, arguments: {gang.eviction: surplus}}
- plugins:
  - {name: predicates}
  - {name: drf}
"""
PLAIN = configured(TEXT)
TREE = configured(
    TEXT.replace("preempt", "preempt, reclaim").replace("{name: drf}", "{name: drf, enableHierarchy: true}")
)


def session_of(world: Cluster, config: Config) -> Session:
    session = Session(Snapshot(world), config, 0.0)
    session.open()
    return session


def bound(plans: list[Plan]) -> Counter[str]:
    return Counter(b.task.removeprefix("ns/").split("-")[0] for plan in plans for b in plan.bind)


def evicted(plans: list[Plan]) -> Counter[str]:
    return Counter(e.task.removeprefix("ns/").split("-")[0] for plan in plans for e in plan.evict)


# -- jobs


def test_the_example_of_the_drf_paper() -> None:
    """9 CPU, 18 GB; A's tasks want <1 CPU, 4 GB>, B's <3 CPU, 1 GB>: A gets 3 and B 2 (Ghodsi et al., NSDI 2011)."""
    world = cluster(
        node("n1", cpu=9, memory="18Gi"),
        gang("a", 10, minimum=0, cpu=1, memory="4Gi"),
        gang("b", 10, minimum=0, cpu=3, memory="1Gi"),
    )
    assert {"a": 3, "b": 2} == bound(scene(world, PLAIN))


def test_jobs_are_ordered_by_exact_shares() -> None:
    """One third of one resource is less than 333334 millionths of another, and equal thirds are equal."""
    world = cluster(
        node("n1", cpu=3, memory=1_000_000),
        gang("first", 1, cpu=0, memory=333_334, on=["n1"]),
        gang("second", 1, cpu=1, memory=0, on=["n1"]),
        gang("third", 1, cpu=1, memory=2, on=["n1"]),
    )
    session = session_of(world, PLAIN)
    share = session.hooks.job_order[-1].call
    first, second, third = (share(job) for job in session.snapshot.jobs.jobs)
    assert second == third < first


def test_a_job_takes_from_one_of_larger_share_until_they_are_even() -> None:
    """Both in one queue: `rich` has 6 surplus pods of 8, `poor` wants 8; after 4 pods neither may take more."""
    world = cluster(
        node("n1", cpu=8),
        gang("rich", 8, minimum=2, cpu=1, on=["n1"] * 8),
        gang("poor", 8, minimum=1, cpu=1, priority=1),
    )
    session = session_of(world, PLAIN)
    poor = session.job(session.snapshot.jobs.number["ns/poor"])
    theirs = session.snapshot.jobs.members[session.snapshot.jobs.number["ns/rich"]]
    shape = int(session.snapshot.tasks.shape[session.tasks_of(poor, Status.PENDING)][0])
    vote = session.hooks.preemptable[-1].call
    # `poor` would have 1, so `rich` may shrink to 1 in turn; judged alone, each eviction leaves it 7.
    assert [True] * 7 + [False] == np.asarray(vote(Claim(poor, shape, False), theirs)).tolist()
    assert np.asarray(vote(Claim(poor, shape, False, together=False), theirs)).all()


def test_the_larger_share_takes_nothing() -> None:
    world = cluster(
        node("n1", cpu=8),
        gang("poor", 3, cpu=1, on=["n1"] * 3),
        gang("rich", 6, minimum=5, cpu=1, on=["n1"] * 5, priority=9),
    )
    session = session_of(world, PLAIN)
    rich = session.job(session.snapshot.jobs.number["ns/rich"])
    theirs = session.snapshot.jobs.members[session.snapshot.jobs.number["ns/poor"]]
    shape = int(session.snapshot.tasks.shape[session.tasks_of(rich, Status.PENDING)][0])
    assert not np.asarray(session.hooks.preemptable[-1].call(Claim(rich, shape, False), theirs)).any()


# -- namespaces


def test_namespaces_take_turns_by_weight_where_weighed() -> None:
    jobs = [gang(f"{ns}/{ns}{i}", 1, cpu=1) for ns in ("one", "three") for i in range(8)]
    args = "{name: drf, arguments: {drf.namespace.three.weight: 3}}"
    weighed = configured(TEXT.replace("{name: drf}", args))
    world = cluster(node("n1", cpu=8), jobs)

    def by_namespace(plans: list[Plan]) -> Counter[str]:
        return Counter(b.task.partition("/")[0] for b in plans[0].bind)

    assert {"one": 2, "three": 6} == by_namespace(scene(world, weighed))
    assert {"one": 8} == by_namespace(scene(world, PLAIN))
    quotas = msgspec.structs.replace(world, namespace_weights={"three": 3})
    assert {"one": 2, "three": 6} == by_namespace(scene(quotas, PLAIN))


def test_the_flag_alone_orders_namespaces_by_share() -> None:
    jobs = [gang(f"{ns}/{ns}{i}", 1, cpu=1) for ns in ("one", "two") for i in range(8)]
    flagged = configured(TEXT.replace("{name: drf}", "{name: drf, enableNamespaceOrder: true}"))
    plans = scene(cluster(node("n1", cpu=8), jobs), flagged)
    assert {"one": 4, "two": 4} == Counter(b.task.partition("/")[0] for b in plans[0].bind)


@pytest.mark.parametrize("weight", ["many", 0, -1, 1.5])
def test_a_weight_is_a_whole_number(weight: object) -> None:
    with pytest.raises(ValueError, match=r"^drf\.namespace\.x\.weight: expected a whole number of at least 1"):
        Arguments.normalise({"drf.namespace.x.weight": weight})


# -- queues in a tree


def leaf(path: str, weights: str) -> Queue:
    names = tuple(path.split("/"))
    return Queue("-".join(names), hierarchy=names, hierarchy_weights=tuple(int(w) for w in weights.split("/")))


def workers(name: str, queue: str, count: int, **requests: Any) -> Any:
    return gang(name, count, minimum=0, queue=queue, **{"cpu": 0, "memory": 0, **requests})


def test_rescaling_a_branch_is_not_charged_for_what_one_child_has_beyond_its_sibling() -> None:
    """The example of the H-DRF paper: `sci` wants both resources, the two teams of `eng` one each; each gets half."""
    world = cluster(
        node("n1", cpu=10, memory=10),
        leaf("root/sci", "100/50"),
        leaf("root/eng/dev", "100/50/50"),
        leaf("root/eng/prod", "100/50/50"),
        workers("sci", "root-sci", 10, cpu=1, memory=1),
        workers("dev", "root-eng-dev", 10, cpu=1),
        workers("prod", "root-eng-prod", 10, memory=1),
    )
    assert {"sci": 5, "dev": 5, "prod": 5} == bound(scene(world, TREE))


def test_blocked_children_do_not_hold_their_siblings_back() -> None:
    """The starvation example of the H-DRF paper: when CPU is used up, `n32` still gets its half of the memory."""
    world = cluster(
        node("n1", cpu=30, memory=30),
        leaf("root/n1", "100/25"),
        leaf("root/n2", "100/25"),
        leaf("root/n3/n31", "100/25/50"),
        leaf("root/n3/n32", "100/25/50"),
        leaf("root/n4", "100/25"),
        workers("n1", "root-n1", 30, cpu=1),
        workers("n2", "root-n2", 30, cpu=1),
        workers("n31", "root-n3-n31", 30, cpu=1),
        workers("n32", "root-n3-n32", 30, memory=1),
        workers("n4", "root-n4", 30, memory=1),
    )
    assert {"n1": 10, "n2": 10, "n31": 10, "n32": 15, "n4": 15} == bound(scene(world, TREE))


def test_weights_count_at_every_level() -> None:
    world = cluster(
        node("n1", cpu=24),
        leaf("root/a/a1", "1/3/1"),
        leaf("root/a/a2", "1/3/2"),
        leaf("root/b", "1/1"),
        workers("a1", "root-a-a1", 24, cpu=1),
        workers("a2", "root-a-a2", 24, cpu=1),
        workers("b", "root-b", 24, cpu=1),
    )
    assert {"a1": 6, "a2": 12, "b": 6} == bound(scene(world, TREE))


def test_parents_and_weights_make_the_tree_where_there_are_no_annotations() -> None:
    world = cluster(
        node("n1", cpu=12),
        Queue("a", weight=2),
        Queue("a1", parent="a"),
        Queue("a2", parent="a"),
        Queue("b", weight=1),
        workers("a1", "a1", 12, cpu=1),
        workers("a2", "a2", 12, cpu=1),
        workers("b", "b", 12, cpu=1),
    )
    assert {"a1": 4, "a2": 4, "b": 4} != bound(scene(world, PLAIN))
    assert {"a1": 4, "a2": 4, "b": 4} == bound(scene(world, TREE))


def test_a_branch_takes_back_until_both_are_even() -> None:
    world = cluster(
        node("n1", cpu=8),
        leaf("root/a", "1/1"),
        leaf("root/b", "1/1"),
        [gang(f"b-{i}", 1, cpu=1, on=["n1"], queue="root-b", minimum=0) for i in range(8)],
        [gang(f"a-{i}", 1, cpu=1, queue="root-a", minimum=1) for i in range(8)],
    )
    plans = scene(world, TREE)
    assert {"b": 4} == evicted(plans)
    assert {"a": 4} == bound(plans)


def test_a_heavier_branch_keeps_more() -> None:
    world = cluster(
        node("n1", cpu=8),
        leaf("root/a", "1/1"),
        leaf("root/b", "1/3"),
        [gang(f"b-{i}", 1, cpu=1, on=["n1"], queue="root-b", minimum=0) for i in range(8)],
        [gang(f"a-{i}", 1, cpu=1, queue="root-a", minimum=1) for i in range(8)],
    )
    assert {"b": 2} == evicted(scene(world, TREE))


def test_places_are_found_again_after_a_change_is_undone() -> None:
    world = cluster(
        node("n1", cpu=8),
        leaf("root/a", "1/1"),
        leaf("root/b", "1/1"),
        workers("a", "root-a", 4, cpu=1),
        workers("b", "root-b", 4, cpu=1),
    )
    session = session_of(world, TREE)
    a, b = (next(q for q in session.snapshot.queues.queues if q.name == name) for name in ("root-a", "root-b"))

    def keys() -> list[Any]:
        return [session.hooks.queue_key(q) for q in (a, b)]

    def give(job: str) -> None:
        row = session.snapshot.jobs.number[f"ns/{job}"]
        task = session.tasks_of(session.job(row), Status.PENDING)[:1]
        session.state.bind(row, int(session.snapshot.tasks.shape[task[0]]), task, np.array([0]), np.array([1]))

    before = keys()
    with session.statement():
        give("a")
        with_a = keys()
        assert with_a != before
    assert before == keys()
    with session.statement():
        give("b")
        assert keys() not in (before, with_a)
    assert before == keys()
