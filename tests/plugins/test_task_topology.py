"""task-topology: pods of a job share nodes or avoid each other by role, as its owner states."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from maar.config.config import Config
from maar.config.problems import ConfigError
from maar.model.jobs import TaskTopology
from maar.model.plan import Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.plugins.volcano.buckets import fill, wishes_of
from maar.plugins.volcano.task_topology import MOST_PODS, MOST_ROLES, plan_of, points_of
from maar.session.session import Session
from maar.testing.builders import Gang, cluster, gang, node
from maar.testing.scenario import configured, scene

TOGETHER = TaskTopology((("ps", "worker"),), (("ps",),))
"""Each ps on a node of its own, with workers."""


def config(arguments: str = "", more: str = "", before: str = "") -> Config:
    return configured(f"""
actions: "allocate"
tiers:
- plugins:
  - {{name: priority}}
  - {{name: gang}}
  - {{name: predicates}}
{before}
  - {{name: task-topology, arguments: {{{arguments}}}{more}}}
""")


def world(topology: TaskTopology | None = TOGETHER, nodes: int = 2, cpu: int = 4, **more: Any) -> Cluster:
    """A job of two ps and four workers, each with a core."""
    roles = more.pop("roles", {"ps": 2, "worker": 4})
    made = gang("j", roles=roles, task_topology=topology, **more)
    return cluster([node(f"n{i}", cpu=cpu) for i in range(1, nodes + 1)], made)


def layout(plans: list[Plan]) -> dict[str, list[str]]:
    """The pods on each node, in the order in which they were placed."""
    found = defaultdict(list)
    for plan in plans:
        for bind in plan.bind:
            found[bind.node].append(bind.task.removeprefix("ns/j-"))
    return dict(found)


def roles_on(plans: list[Plan]) -> dict[str, Counter[str]]:
    return {name: Counter(pod.rpartition("-")[0] for pod in pods) for name, pods in layout(plans).items()}


def reasons(plans: list[Plan]) -> list[tuple[str, str]]:
    return [(r.code, r.message) for w in plans[-1].waiting for r in w.reasons]


# -- scenes


def test_affinity_and_anti_affinity_make_equal_nodes() -> None:
    each = Counter(ps=1, worker=2)
    assert {"n1": each, "n2": each} == roles_on(scene(world(), config()))
    assert {"n1": each, "n2": each} == roles_on(scene(world(cpu=8), config())), "also if all would fit on one node"
    assert {"n1": Counter(ps=2, worker=2), "n2": Counter(worker=2)} == roles_on(scene(world(None), config()))


def test_a_role_alone_in_a_list_stays_together_or_apart() -> None:
    apart = TaskTopology(anti_affinity=(("worker",),))
    plans = scene(world(apart, nodes=4, cpu=8, roles={"worker": 4}), config())
    assert {f"n{i}": Counter(worker=1) for i in range(1, 5)} == roles_on(plans)
    # Packing wants three of them on the fuller node; together they fit on the other one only.
    pack = "  - {name: binpack, arguments: {binpack.weight: 1}}"
    for topology, expected in ((TaskTopology((("worker",),)), {"n2": 4}), (None, {"n1": 3, "n2": 1})):
        workers = jobs_of(world(topology, roles={"worker": 4}))
        made = cluster(node("n1"), node("n2"), gang("old", cpu=61, on=["n1"]), gang("new", cpu=60, on=["n2"]), workers)
        plans = scene(made, config("task-topology.weight: 10", before=pack))
        assert expected == {name: len(pods) for name, pods in layout(plans).items()}


def test_the_weight_decides_against_other_scores() -> None:
    """Packing wants one node, the topology wants two."""
    pack = "  - {name: binpack, arguments: {binpack.weight: 10}}"
    made = cluster(node("n1", cpu=16), node("n2", cpu=16), gang("old", cpu=8, on=["n2"]), *jobs_of(world()))
    assert 2 == len(roles_on(scene(made, config("task-topology.weight: 1000", before=pack))))
    assert ["n2"] == list(roles_on(scene(made, config("task-topology.weight: 0", before=pack))))
    assert ["n2"] == list(roles_on(scene(made, config("task-topology.weight: 0.001", before=pack))))


def jobs_of(made: Cluster) -> list[Gang]:
    return [Gang(job, tuple(t for t in made.tasks if t.job == job.key)) for job in made.jobs]


def test_the_order_of_roles_decides_who_is_placed_first() -> None:
    one: dict[str, Any] = {"roles": {"chief": 1, "ps": 1, "worker": 1}, "nodes": 1, "minimum": 1, "cpu": 2}
    both = (("chief", "ps", "worker"),)
    for order in (("worker", "ps"), ("ps", "worker"), ("chief", "worker")):
        plans = scene(world(TaskTopology(both, order=order), **one), config())
        assert sorted(f"{role}-0" for role in order) == sorted(layout(plans)["n1"])
    plans = scene(world(TaskTopology(both, order=("worker", "ps")), **one), config(more=", enableTaskOrder: false"))
    assert ["chief-0", "ps-0"] == sorted(layout(plans)["n1"])


def test_pods_without_a_wish_come_last_and_large_buckets_first() -> None:
    wish = TaskTopology((("b", "c"),), (("b",),))
    for cpu, placed in ((2, ["b-0", "c-0"]), (3, ["b-0", "b-1", "c-0"]), (4, ["a-0", "b-0", "b-1", "c-0"])):
        plans = scene(world(wish, nodes=1, cpu=cpu, roles={"a": 2, "b": 2, "c": 1}, minimum=1), config())
        assert placed == sorted(layout(plans)["n1"])


def test_new_pods_join_the_bucket_of_the_node_where_theirs_run() -> None:
    wish = TaskTopology((("ps", "worker"),))
    made = world(wish, nodes=3, roles={"ps": 1, "worker": 2}, minimum=1, on=["n3"])
    assert {"n3": ["worker-0", "worker-1"]} == layout(scene(made, config()))
    # Two of its kind there already, which it avoids: as running pods count, it goes elsewhere.
    apart = world(TaskTopology(anti_affinity=(("worker",),)), nodes=2, roles={"worker": 2}, minimum=1, on=["n1"])
    assert {"n2": ["worker-1"]} == layout(scene(apart, config()))


def test_surplus_is_placed_by_buckets_too() -> None:
    each = Counter(ps=1, worker=2)
    assert {"n1": each, "n2": each} == roles_on(scene(world(cpu=3, minimum=1), config()))


def test_pods_of_other_sizes_fill_the_same_node() -> None:
    """On `n1` two cores are left beside the first two pods, and the third needs three."""
    parts = [gang("j", cpu=cpu, roles={role: 1}).tasks[0] for role, cpu in (("a", 1), ("b", 2), ("c", 3))]
    job = replace(gang("j").job, task_topology=TaskTopology((("a", "b", "c"),)))
    made = cluster(node("n1", cpu=5), node("n2", cpu=6), Gang(job, tuple(parts)))
    session = Session(Snapshot(made), config(), 0.0)
    session.open()
    assert [2.0, 3.0] == points_of(session, plan_of(session, session.job(0)), 0).tolist()


def test_flags_switch_the_score_off() -> None:
    assert 1 == len(layout(scene(world(cpu=8), config(more=", enableNodeOrder: false"))))


def test_minimums_of_roles_and_gangs_hold() -> None:
    made = world(cpu=2, minimum=6, role_min={"ps": 2, "worker": 4})
    assert {} == layout(scene(made, config()))
    fits = world(cpu=3, minimum=6, role_min={"ps": 2, "worker": 4})
    assert {"n1": Counter(ps=1, worker=2), "n2": Counter(ps=1, worker=2)} == roles_on(scene(fits, config()))


@pytest.mark.parametrize(
    ("topology", "more", "said"),
    [
        (TaskTopology(problem="`x`: role `ps` is named twice in one list"), {}, "`x`: role `ps` is named twice"),
        (TaskTopology((("ps", "typo"),)), {}, "no pod of the job has the role `typo`"),
        (TaskTopology(order=("typo",)), {}, "no pod of the job has the role `typo`"),
        (TOGETHER, {"roles": {"ps": 1, "worker": MOST_PODS}, "minimum": 1}, "the job has 2,001 pods, expected at most"),
        (TOGETHER, {"roles": {f"r{i}": 1 for i in range(MOST_ROLES + 1)}, "minimum": 1}, "the job has 101 roles"),
    ],
)
def test_a_topology_that_cannot_be_used_is_ignored_and_the_job_says_so(
    topology: TaskTopology, more: dict[str, Any], said: str
) -> None:
    plans = scene(world(topology, cpu=1, **{"minimum": 6, **more}), config())
    (found,) = [text for code, text in reasons(plans) if code == "TaskTopologyIgnored"]
    assert found.startswith(f"its task topology is ignored: {said}")
    usual = world(topology, cpu=4, **more)
    without = replace(usual, jobs=tuple(replace(job, task_topology=None) for job in usual.jobs))
    assert layout(scene(without, config())) == layout(scene(usual, config())) != {}


def test_bad_arguments() -> None:
    with pytest.raises(ConfigError, match=r"task-topology\.weight"):
        config("task-topology.weight: heavy")


# -- compared with Volcano's rules, written plainly

names = ("a", "b", "c")
lists = st.lists(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True).map(tuple), max_size=3).map(
    tuple
)
topologies = st.builds(TaskTopology, lists, lists, st.lists(st.sampled_from(names), unique=True).map(tuple))
pods = st.lists(
    st.tuples(st.sampled_from((*names, "d")), st.integers(-1, 2), st.integers(1, 4).map(float)), max_size=12
)


def wish(topology: TaskTopology, one: str, other: str) -> int:
    def has(stated: tuple[tuple[str, ...], ...]) -> bool:
        if one == other:
            return (one,) in stated
        return any(one in group and other in group for group in stated)

    return has(topology.affinity) - has(topology.anti_affinity)


def strength(topology: TaskTopology, role: str) -> int:
    found = [0]
    for group in topology.affinity:
        found += [(2 if len(group) == 1 else 3) if role in group else 0]
    for group in topology.anti_affinity:
        found += [(4 if len(group) == 1 else 1) if role in group else 0]
    return max(found)


def place(topology: TaskTopology, role: str) -> tuple[int, int]:
    order = topology.order.index(role) if role in topology.order else len(topology.order)
    return order, -strength(topology, role)


@given(topologies, pods)
def test_safety_buckets_are_those_of_the_rules(
    topology: TaskTopology, given_pods: list[tuple[str, int, float]]
) -> None:
    roles = (*names, "d")
    role, where, size = [p[0] for p in given_pods], [p[1] for p in given_pods], [p[2] for p in given_pods]
    found = fill(
        wishes_of(topology, roles),
        np.array([roles.index(r) for r in role], dtype=np.int64),
        np.array(where, dtype=np.int64),
        np.array(size, dtype=np.float64),
    )
    buckets: list[list[int]] = []
    inside = [i for i, r in enumerate(role) if strength(topology, r)]
    for name in sorted({where[i] for i in inside if where[i] >= 0}):
        buckets.append([i for i in inside if where[i] == name])
    for i in sorted((i for i in inside if where[i] < 0), key=lambda i: (place(topology, role[i]), i)):
        best, chosen, least = -1, None, 0.0
        for b, there in enumerate(buckets):
            points = sum(wish(topology, role[i], role[j]) for j in there)
            load = sum(size[j] for j in there if where[j] < 0)
            if points > best or (points == best and chosen is not None and load < least):
                best, chosen, least = points, b, load
        if chosen is None:
            buckets.append([i])
        else:
            buckets[chosen].append(i)
    expected = [-1] * len(role)
    for b, there in enumerate(buckets):
        for i in there:
            expected[i] = b
    assert expected == found.of_pod.tolist()
    assert max(map(len, buckets), default=0) == found.largest


@given(
    topologies,
    st.lists(st.tuples(st.sampled_from(names), st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=8),
    st.lists(st.integers(1, 12), min_size=3, max_size=3),
)
def test_safety_points_are_those_of_the_rules(
    topology: TaskTopology, stated: list[tuple[str, int, int]], cores: list[int]
) -> None:
    """Each pod: its role, its cores, and its node (0: it waits)."""
    base = gang("j", roles={"a": 1})
    tasks = []
    for i, (role, cpu, where) in enumerate(stated):
        (one,) = gang("j", cpu=cpu, roles={role: 1}).tasks
        on = {"status": Status.BOUND, "node": f"n{where}"} if where else {}
        tasks.append(replace(one, key=f"ns/j-{i}", index=i, **on))
    job = replace(base.job, task_topology=topology, min_member=1)
    made = cluster([node(f"n{i}", cpu=core) for i, core in enumerate(cores, 1)], Gang(job, tuple(tasks)))
    session = Session(Snapshot(made), config(), 0.0)
    session.open()
    plan = plan_of(session, session.job(0))
    of = plan.buckets.of_pod.tolist()
    used = [sum(cpu for _, cpu, where in stated if where == n) for n in (1, 2, 3)]
    for t, (role, cpu, where) in enumerate(stated):
        if where or of[t] < 0:
            continue
        expected = []
        for n in (1, 2, 3):
            free = cores[n - 1] - used[n - 1] - cpu
            if free < 0:
                expected.append(0.0)
                continue
            points = sum(of[i] == of[t] and p[2] == n for i, p in enumerate(stated)) + 1
            points -= sum(p[2] == n and apart(topology, role, p[0]) for p in stated)
            for other in (i for i, p in enumerate(stated) if i != t and not p[2] and of[i] == of[t]):
                free -= stated[other][1]
                if free < 0:
                    break
                points += 1
            expected.append(float(points))
        assert expected == points_of(session, plan, t).tolist()


def apart(topology: TaskTopology, one: str, other: str) -> bool:
    return wish(replace(topology, affinity=()), one, other) < 0
