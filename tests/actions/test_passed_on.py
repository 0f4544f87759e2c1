"""Room that is being freed passes to a later job of higher priority, and nothing more is evicted for it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.confs import ALLOCATE, PREEMPT

from maar.config.config import Config
from maar.config.file import default_config
from maar.decide import decide
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.registry import catalog
from maar.testing.builders import Gang, cluster, gang, node
from maar.testing.scenario import configured, scene

PLAIN = [configured(ALLOCATE), configured(PREEMPT)]
CONFIGS = [
    pytest.param(PLAIN[0], id="allocate"),
    pytest.param(PLAIN[1], id="preempt"),
    pytest.param(default_config(catalog()), id="default"),
]
NODES = [node("n1", gpu=8), node("n2", gpu=8)]


def leaving(name: str, *nodes: str, gpu: int = 8) -> Gang:
    """Victims that do not leave by themselves: their finalizers keep them."""
    return gang(name, len(nodes), gpu=gpu, on=list(nodes), task={"status": Status.RELEASING})


def promised(name: str, *nodes: str, priority: int = 100, created: float = 1.0, gpu: int = 8) -> Gang:
    status = {"status": Status.NOMINATED}
    return gang(name, len(nodes), gpu=gpu, on=list(nodes), priority=priority, created=created, task=status)


def stays(name: str, where: str, gpu: int = 8, priority: int = 0) -> Gang:
    return gang(name, 1, gpu=gpu, on=[where], priority=priority)


def nominations(plan: Plan) -> dict[str, str]:
    return {n.task: n.node for n in plan.nominate}


def decided(of: Cluster, config: Config) -> Plan:
    """The plan of one cycle, and five more in which nothing moves while the victims are still there."""
    first = decide(Snapshot(of), config, 10.0)
    where = nominations(first)
    tasks = []
    for task in of.tasks:
        if task.key in where:
            task = replace(task, status=Status.NOMINATED, node=where[task.key])
        elif task.status is Status.NOMINATED:
            task = replace(task, status=Status.PENDING, node="")
        tasks.append(task)
    after = replace(of, tasks=tuple(tasks))
    if not first.bind and not first.evict:
        for i in range(5):
            again = decide(Snapshot(after), config, 11.0 + i)
            assert not again.moves
            assert where == nominations(again)
    return first


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(("priority", "gets"), [(1000, True), (101, True), (100, False), (99, False)])
def test_a_job_of_higher_priority_gets_room_that_is_being_freed(config: Config, priority: int, gets: bool) -> None:
    """n2 has a job that nobody may evict: its priority is higher still."""
    late = gang("late", 1, gpu=8, priority=priority, created=5.0)
    scenery = cluster(NODES, leaving("v", "n1"), stays("x", "n2", priority=2000), promised("early", "n1"), late)
    plan = decided(scenery, config)
    assert {"ns/late-0" if gets else "ns/early-0": "n1"} == nominations(plan)
    assert () == plan.evict
    assert {"ns/early" if gets else "ns/late"} == {w.job for w in plan.waiting} - {"ns/late" if gets else "ns/early"}


@pytest.mark.parametrize("config", CONFIGS[1:])
def test_no_other_victim_is_evicted_for_it_and_the_first_job_looks_for_other_room(config: Config) -> None:
    late = gang("late", 1, gpu=8, priority=1000, created=5.0)
    scenery = cluster(NODES, leaving("v", "n1"), stays("x", "n2"), promised("early", "n1"), late)
    plan = decided(scenery, config)
    assert {"ns/late-0": "n1", "ns/early-0": "n2"} == nominations(plan)
    assert [("ns/x-0", "ns/early")] == [(e.task, e.beneficiary) for e in plan.evict]


@pytest.mark.parametrize("config", CONFIGS)
def test_a_job_that_fits_elsewhere_takes_nothing(config: Config) -> None:
    late = gang("late", 1, gpu=8, priority=1000, created=5.0)
    scenery = cluster(NODES, leaving("v", "n1"), promised("early", "n1"), late)
    plan = decide(Snapshot(scenery), config, 10.0)
    assert [("ns/late-0", "n2")] == [(b.task, b.node) for b in plan.bind]
    assert {"ns/early-0": "n1"} == nominations(plan)


@pytest.mark.parametrize("config", CONFIGS)
def test_room_that_is_free_already_is_bound_at_once(config: Config) -> None:
    """The gang `early` waits for its second node; its first one is free."""
    late = gang("late", 1, gpu=8, priority=1000, created=5.0)
    scenery = cluster(NODES, leaving("v", "n2"), promised("early", "n1", "n2"), late)
    plan = decide(Snapshot(scenery), config, 10.0)
    assert [("ns/late-0", "n1")] == [(b.task, b.node) for b in plan.bind]
    assert {} == nominations(plan), "a gang waits whole"
    assert () == plan.evict


@pytest.mark.parametrize("config", CONFIGS)
def test_gangs_give_and_take_whole(config: Config) -> None:
    three = [*NODES, node("n3", gpu=8)]
    late = gang("late", 2, gpu=8, priority=1000, created=5.0)
    both = cluster(three, leaving("v", "n1", "n2", "n3"), promised("early", "n1", "n2"), promised("other", "n3"), late)
    plan = decided(both, config)
    assert 2 == sum(task.startswith("ns/late") for task in nominations(plan))
    assert 1 == sum(task.startswith("ns/other") for task in nominations(plan)), "one node is left, enough for it"
    assert not any(task.startswith("ns/early") for task in nominations(plan))
    large = gang("late", 4, gpu=8, priority=1000, created=5.0)
    too_large = cluster(three, leaving("v", "n1", "n2", "n3"), promised("early", "n1", "n2"), large)
    assert {"ns/early-0", "ns/early-1"} == nominations(decided(too_large, config)).keys(), "nothing for half a gang"


@pytest.mark.parametrize("config", CONFIGS)
def test_the_lowest_priority_gives_way_first(config: Config) -> None:
    late = gang("late", 1, gpu=8, priority=1000, created=5.0)
    scenery = cluster(
        NODES, leaving("v", "n1", "n2"), promised("a", "n1", priority=500), promised("b", "n2", priority=100), late
    )
    assert {"ns/a-0": "n1", "ns/late-0": "n2"} == nominations(decided(scenery, config))


@pytest.mark.parametrize("config", CONFIGS)
def test_what_is_left_goes_back(config: Config) -> None:
    late = gang("late", 1, gpu=4, priority=1000, created=5.0)
    scenery = cluster(
        NODES[:1],
        leaving("v", "n1"),
        promised("a", "n1", gpu=4, created=1.0),
        promised("b", "n1", gpu=4, created=2.0),
        late,
    )
    assert {"ns/a-0", "ns/late-0"} == nominations(decided(scenery, config)).keys()


@pytest.mark.parametrize("config", CONFIGS)
def test_a_gang_that_runs_in_part_keeps_its_room(config: Config) -> None:
    """Without the room it would have to be released: that is an eviction."""
    part = gang("part", 2, gpu=8, priority=100, on=["n1", "n2"])
    part = replace(part, tasks=(part.tasks[0], replace(part.tasks[1], status=Status.NOMINATED)))
    late = gang("late", 1, gpu=8, priority=150, created=5.0, preempts=False)
    plan = decide(Snapshot(cluster(NODES, leaving("v", "n2"), part, late)), config, 10.0)
    assert {"ns/part-1": "n2"} == nominations(plan)
    assert () == plan.evict


@pytest.mark.parametrize("config", CONFIGS)
def test_between_queues_priorities_do_not_count(config: Config) -> None:
    late = gang("late", 1, gpu=8, priority=1000, created=5.0, queue="other")
    queues = Queue("default"), Queue("other")
    scenery = cluster(
        NODES, queues, leaving("v", "n1"), gang("x", 1, gpu=8, on=["n2"], queue="other"), promised("early", "n1"), late
    )
    assert "n1" == nominations(decide(Snapshot(scenery), config, 10.0))["ns/early-0"]


def test_fewer_pods_are_evicted_with_room_that_is_being_freed() -> None:
    """`late` needs both nodes: n1 is being freed for `early`, n2 must be freed."""
    late = gang("late", 2, gpu=8, priority=1000, created=5.0)
    three = [*NODES, node("n3", gpu=8)]
    scenery = cluster(three, leaving("v", "n1"), stays("x", "n2"), stays("y", "n3"), promised("early", "n1"), late)
    plan = decided(scenery, configured(PREEMPT))
    assert 1 == len(plan.evict)
    assert {"ns/late-0", "ns/late-1"} == nominations(plan).keys()


def test_a_pod_without_a_minimum_gets_it_too() -> None:
    """Without the plugin `gang` no job has a minimum."""
    late = gang("late", 1, gpu=4, priority=1000, created=5.0)
    scenery = cluster(NODES, leaving("v", "n1"), stays("x", "n2", priority=2000), promised("early", "n1"), late)
    alone = PREEMPT.replace("  - name: gang\n    arguments: {gang.eviction: whole}\n", "")
    plan = decided(scenery, configured(alone))
    assert {"ns/late-0": "n1"} == nominations(plan)
    assert () == plan.evict


def test_surplus_pods_take_nothing() -> None:
    """A job that has its minimum evicts nothing for more pods, and takes no room that is being freed for others."""
    late = gang("late", 2, minimum=1, gpu=4, priority=1000, on=["n2", "n2"])
    late = replace(late, tasks=(late.tasks[0], replace(late.tasks[1], status=Status.PENDING, node="")))
    scenery = cluster(NODES, leaving("v", "n1"), stays("x", "n2", 4, priority=2000), promised("early", "n1"), late)
    assert {"ns/early-0": "n1"} == nominations(decided(scenery, configured(PREEMPT)))


def test_a_victim_that_has_gone_leaves_its_room_to_the_job_of_higher_priority() -> None:
    late = gang("late", 1, gpu=8, priority=1000, created=5.0)
    gone = cluster(NODES, stays("x", "n2", priority=2000), promised("early", "n1"), late)
    plans = scene(gone, configured(PREEMPT))
    assert [("ns/late-0", "n1")] == [(b.task, b.node) for plan in plans for b in plan.bind]


GANGS = st.lists(
    st.tuples(st.integers(1, 2), st.sampled_from([0, 100, 100, 1000]), st.booleans()), min_size=1, max_size=6
)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 4), GANGS, st.sampled_from(PLAIN))
def test_safety_promises_settle_in_the_order_of_priorities(
    count: int, sizes: list[tuple[int, int, bool]], config: Config
) -> None:
    """Each pod needs a whole node, and all nodes are being freed: a waiting job could not have a lower job's room."""
    names = [f"n{i}" for i in range(count)]
    jobs, left = [], list(names)
    for i, (size, priority, first) in enumerate(sizes):
        mine, left = (left[:size], left[size:]) if first and size <= len(left) else ([], left)
        made = promised(f"j{i}", *mine, priority=priority, created=float(i))
        jobs.append(made if mine else gang(f"j{i}", size, gpu=8, priority=priority, created=float(i)))
    where = nominations(decided(cluster([node(name, gpu=8) for name in names], leaving("v", *names), jobs), config))
    has = {i: sum(task.startswith(f"ns/j{i}-") for task in where) for i in range(len(sizes))}
    assert all(n in (0, sizes[i][0]) for i, n in has.items()), "gangs are promised room whole"
    for i, (size, priority, _) in enumerate(sizes):
        room = count - sum(n for j, n in has.items() if sizes[j][1] >= priority)
        assert has[i] or size > room, f"j{i} waits"
