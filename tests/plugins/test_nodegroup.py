"""nodegroup: the jobs of a queue run on the node groups of that queue."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from maar.config.config import Config, PluginOption, Registration
from maar.model.plan import Plan
from maar.model.queues import GroupLimits, NodeGroups, Queue
from maar.model.snapshot import Cluster, Snapshot
from maar.plugins import nodegroup
from maar.plugins.nodegroup import LABEL, Arguments
from maar.session.session import Session
from maar.testing.builders import cluster, gang, node
from maar.testing.scenario import configured, scene


def config(arguments: str = "{}", more: str = "", actions: str = "allocate, backfill") -> Config:
    return configured(f"""
actions: "{actions}"
tiers:
- plugins:
  - {{name: priority}}
  - {{name: gang, arguments: {{gang.eviction: whole}}}}
- plugins:
  - {{name: predicates}}
  - {{name: nodegroup, arguments: {arguments}{more}}}
""")


def queue(name: str = "q", parent: str = "", **groups: tuple[str, ...]) -> Queue:
    return Queue(name, parent=parent, node_groups=NodeGroups(**groups))


FOUR = [node(f"n{i}", cpu=1, labels={LABEL: group} if group else {}) for i, group in enumerate(["", *"abc"], 1)]
"""Nodes with room for one pod each: n1 is in no group, n2 to n4 are in the groups a to c."""


def world(*queues: Queue, pods: int = 1) -> Cluster:
    return cluster(FOUR, queues, gang("j", pods, minimum=1, queue="q"))


def used(plans: list[Plan]) -> list[str]:
    """The nodes in the order in which they were given."""
    return [bind.node for plan in plans for bind in plan.bind]


def code_and_text(plans: list[Plan]) -> list[tuple[str, str]]:
    return [(reason.code, reason.message) for waiting in plans[-1].waiting for reason in waiting.reasons]


@pytest.mark.parametrize(
    ("groups", "strict", "expected"),
    [
        ({"required": ("a",)}, True, ["n2"]),
        ({"required": ("a",)}, False, ["n2"]),
        ({"preferred": ("b", "c")}, True, ["n3", "n4"]),
        ({"required": ("a",), "preferred": ("c",)}, True, ["n2", "n4"]),
        ({"required": ("b",), "preferred": ("b",), "avoided": ("a",)}, True, ["n3", "n2"]),
        ({"required": ("a", "b"), "forbidden": ("a",)}, True, ["n3"]),
        ({"required": ("a", "b"), "forbidden": ("a",), "avoided": ("a",)}, True, ["n3"]),
        # Only groups that it must not use: all others are open to it.
        ({"forbidden": ("b",)}, True, ["n2", "n4"]),
        ({"forbidden": ("b",)}, False, ["n1", "n2", "n4"]),
        ({"avoided": ("a",)}, True, ["n3", "n4", "n2"]),
        ({}, False, ["n1"]),
        ({}, True, []),
    ],
)
def test_which_nodes_a_queue_may_use_and_in_which_order(
    groups: dict[str, Any], strict: bool, expected: list[str]
) -> None:
    plans = scene(world(queue(**groups), pods=5), config(f"{{strict: {strict}}}"))
    assert expected == used(plans)


def test_earlier_preferred_groups_are_better_only_with_the_argument() -> None:
    made = world(queue(preferred=("c", "a", "b")), pods=3)
    assert ["n2", "n3", "n4"] == used(scene(made, config()))
    assert ["n4", "n2", "n3"] == used(scene(made, config("{enablePreferredOrder: true}")))


def test_a_queue_without_affinity_takes_that_of_the_nearest_queue_above_if_the_tree_counts() -> None:
    tree = [
        Queue("root", node_groups=NodeGroups(required=("c",))),
        queue("org", required=("b",)),
        Queue("team", parent="org"),
        Queue("q", parent="team"),
    ]
    made = world(*tree, pods=3)
    assert ["n3"] == used(scene(made, config(more=", enableHierarchy: true")))
    assert [] == used(scene(made, config()))
    alone = world(tree[0], Queue("q"), pods=3)
    assert ["n4"] == used(scene(alone, config(more=", enableHierarchy: true"))), "root is above every queue"
    empty = world(*tree[:3], queue("q", "team"), pods=3)
    assert [] == used(scene(empty, config(more=", enableHierarchy: true"))), "an empty affinity inherits nothing"


def test_flags_switch_refusals_and_scores_off() -> None:
    made = world(queue(required=("c",)), pods=2)
    assert ["n4", "n1"] == used(scene(made, config(more=", enablePredicate: false")))
    made = world(queue(required=("a",), preferred=("b",), avoided=("c",)), pods=2)
    assert ["n2", "n3"] == used(scene(made, config(more=", enableNodeOrder: false")))
    worse_first = world(queue(required=("c",), avoided=("a",)), pods=1)
    assert ["n4"] == used(scene(worse_first, config()))
    assert ["n2"] == used(scene(worse_first, config(more=", enableNodeOrder: false")))


def test_a_waiting_job_says_which_nodes_are_of_other_groups() -> None:
    plans = scene(world(queue(required=("x",))), config())
    text = "0/4 nodes fit: 3 in a node group that queue `q` may not use, 1 in no node group"
    assert [("NodeGroup", text)] == code_and_text(plans)


def test_a_queue_that_may_use_no_node_says_so() -> None:
    plans = scene(world(Queue("q")), config())
    text = "queue `q` names no node group (`spec.affinity`), so its jobs may use no node"
    assert [("QueueWithoutNodeGroup", text)] == code_and_text(plans)


def test_nothing_is_evicted_on_nodes_of_other_groups() -> None:
    low = [gang(f"low{i}", on=[name], queue="q") for i, name in enumerate(("n2", "n3"))]
    made = cluster(FOUR, queue(required=("b",)), low, gang("high", queue="q", priority=9))
    plans = scene(made, config(actions="allocate, preempt"))
    assert ["ns/low1-0"] == [evict.task for plan in plans for evict in plan.evict]
    assert "n3" in used(plans)


def test_nodes_of_other_groups_are_not_locked() -> None:
    text = """
actions: "elect, allocate, reserve"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: reservation}, {name: predicates}, {name: nodegroup}]
"""
    running = gang("old", 2, on=["n2", "n3"], queue="q")
    made = cluster(FOUR, queue(required=("b", "a")), queue("r", required=("c",)), running)
    locked = scene(cluster(made.nodes, made.queues, running, gang("j", 2, queue="q")), configured(text))[-1].locks
    assert ["n2", "n3"] == sorted(lock.node for lock in locked)


# -- compared with Volcano's rules, written plainly

names = st.sampled_from("abcd")
lists = st.lists(names, max_size=3, unique=True).map(tuple)
groups = st.builds(NodeGroups, lists, lists, lists, lists)
labels = st.lists(st.one_of(st.just(""), names), min_size=1, max_size=6)


@given(groups, labels, st.booleans(), st.booleans())
def test_safety_masks_and_scores_are_those_of_the_rules(
    wanted: NodeGroups, found: list[str], strict: bool, in_order: bool
) -> None:
    machines = [node(f"n{i}", labels={LABEL: name} if name else {}) for i, name in enumerate(found)]
    made = cluster(machines, Queue("q", node_groups=wanted), gang("j", queue="q"))
    plugin = PluginOption(Registration(nodegroup.NAME, nodegroup.Nodegroup), Arguments(strict, in_order))
    session = Session(Snapshot(made), Config((), ((plugin,),)), 0.0)
    session.open()
    (job,) = session.snapshot.jobs.jobs
    mask = session.open_to(job)
    assert [fits(wanted, name, strict) for name in found] == (
        [True] * len(found) if mask is None else np.asarray(mask).tolist()
    )
    scores = session.hooks.job_scores[0].call(job)
    expected = [value(wanted, name, in_order) for name in found]
    assert expected == ([0.0] * len(found) if scores is None else scores.tolist())


def fits(wanted: NodeGroups, name: str, strict: bool) -> bool:
    chosen = {*wanted.required, *wanted.preferred}
    excluded = {*wanted.forbidden, *wanted.avoided}
    if name == "":
        return not strict and not chosen
    if not chosen and not excluded:
        return False
    if name in wanted.forbidden:
        return False
    return not chosen or name in chosen or name in wanted.avoided


def value(wanted: NodeGroups, name: str, in_order: bool) -> float:
    if name in wanted.avoided:
        return -1.0
    score = 100.0 if name in wanted.required else 0.0
    for place, preferred in enumerate(wanted.preferred):
        if preferred == name:
            size = len(wanted.preferred)
            score += 50.0 * (size - place) / size if in_order else 50.0
    return score


# -- limits of a queue in each group


def limited(amounts: dict[str, dict[str, int]], **groups: tuple[str, ...]) -> Queue:
    made = NodeGroups(**groups) if groups else NodeGroups(preferred=("a", "b", "c"))
    return Queue("q", node_groups=made, group_limits=GroupLimits(amounts))


IN_GROUPS = [node(f"{group}{i}", cpu=2, gpu=2, labels={LABEL: group}) for group in "ab" for i in (1, 2)]
"""Two nodes in each of two groups, with two CPUs and GPUs each."""
ORDERED = "{enablePreferredOrder: true}"


@pytest.mark.parametrize(
    ("amounts", "pods", "expected"),
    [
        ({}, 8, {"a": 4, "b": 4}),
        ({"a": {"cpu": 3000}}, 4, {"a": 3, "b": 1}),
        ({"a": {"cpu": 3000}}, 8, {"a": 3, "b": 4}),
        ({"a": {"cpu": 1500}}, 2, {"a": 1, "b": 1}),
        ({"a": {"cpu": 0}}, 2, {"b": 2}),
        ({"a": {"cpu": 2000, "nvidia.com/gpu": 1}, "b": {"cpu": 1000}}, 4, {"a": 1, "b": 1}),
        ({"a": {"nvidia.com/unknown": 0}, "z": {"cpu": 0}}, 4, {"a": 4}),
    ],
)
def test_limit_of_a_queue_in_a_group(amounts: dict[str, dict[str, int]], pods: int, expected: dict[str, int]) -> None:
    scenery = cluster(IN_GROUPS, limited(amounts), gang("j", pods, gpu=1, minimum=1, queue="q"))
    assert expected == Counter(name[0] for name in used(scene(scenery, config(ORDERED))))


def test_gang_overflows_as_a_whole_or_waits_with_the_reason() -> None:
    whole = gang("j", 4, gpu=1, queue="q")
    one = cluster(IN_GROUPS, limited({"a": {"cpu": 1000}, "b": {"cpu": 3000}}), whole)
    assert {"a": 1, "b": 3} == Counter(name[0] for name in used(scene(one, config(ORDERED))))
    plans = scene(cluster(IN_GROUPS, limited({"a": {"cpu": 0}, "b": {"cpu": 3000}}), whole), config(ORDERED))
    assert [] == used(plans)
    words = "in node group `a`, where queue `q` has reached its limit"
    text = f"needs 4 pods together, there is room for 3: 2/4 nodes fit: 2 {words}"
    assert [("NotEnoughResources", text)] == code_and_text(plans)
    plans = scene(cluster(IN_GROUPS, limited({"a": {"cpu": 0}}, required=("a",)), whole), config(ORDERED))
    other = "2 in a node group that queue `q` may not use"
    assert [("NodeGroup", f"0/4 nodes fit: {other}, 2 {words}")] == code_and_text(plans)


def test_limit_counts_running_pods_of_the_same_queue_only() -> None:
    others = gang("other", 2, gpu=1, on=["a1", "a2"], queue="p")
    own = gang("own", 2, gpu=1, on=["a1", "a2"], queue="q")
    new = gang("j", 2, gpu=1, minimum=1, queue="q")
    queues = (limited({"a": {"cpu": 2000}}), queue("p", preferred=("a", "b")))
    assert ["b1", "b1"] == used(scene(cluster(IN_GROUPS, queues, others, own, new), config(ORDERED)))
    assert {"a": 2} == Counter(n[0] for n in used(scene(cluster(IN_GROUPS, queues, others, new), config(ORDERED))))


def test_nothing_is_evicted_for_room_that_the_limit_forbids() -> None:
    """As in Volcano, also not pods of the same queue."""
    low = gang("low", 8, gpu=1, minimum=1, on=[n.name for n in IN_GROUPS for _ in (0, 1)], queue="q")
    high = gang("high", 2, gpu=1, priority=9, queue="q")
    closed = limited({"a": {"cpu": 4000}, "b": {"cpu": 4000}})
    plans = scene(cluster(IN_GROUPS, closed, low, high), config(ORDERED, actions="allocate, preempt"))
    assert () == plans[0].evict


def test_a_slot_in_a_group_at_its_limit_is_no_reason_not_to_preempt() -> None:
    """A pod without requests needs a slot only: the free one is where its queue has reached its limit."""
    nodes = (node("a1", labels={LABEL: "a"}), node("b1", pods=1, labels={LABEL: "b"}))
    low = gang("low", cpu=0, memory=0, on=["b1"], queue="q")
    high = gang("high", cpu=0, memory=0, priority=9, queue="q")
    parts = cluster(nodes, limited({"a": {"pods": 0}}), low, high)
    plans = scene(parts, config(actions="allocate, backfill, preempt"))
    assert ["ns/low-0"] == [e.task for e in plans[0].evict]
    assert ["b1"] == used(plans)


def test_malformed_limits_stop_the_jobs_of_the_queue_with_the_place() -> None:
    broken = replace(queue(required=("a",)), group_limits=GroupLimits(problem="`x`: a.cpu: expected, got"))
    plans = scene(world(broken), config())
    assert [("QueueInvalid", "queue `q`: `x`: a.cpu: expected, got")] == code_and_text(plans)
    assert ["n2"] == used(scene(world(broken), config(more=", enablePredicate: false")))


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), min_size=1, max_size=8),
    st.dictionaries(st.sampled_from("abcz"), st.integers(0, 9), max_size=3),
    st.integers(1, 14),
    st.integers(1, 3),
)
def test_limits_agree_with_a_plain_reference(
    nodes: list[tuple[str, int]], limits: dict[str, int], pods: int, cpu: int
) -> None:
    """One pod after the other on the first node with room in its group."""
    made = [node(f"n{i}", cpu=has, labels={LABEL: group}) for i, (group, has) in enumerate(nodes)]
    amounts = {group: {"cpu": 1000 * most} for group, most in limits.items()}
    job = gang("j", pods, cpu=cpu, minimum=1, queue="q")
    plans = scene(cluster(made, limited(amounts), job), config())
    free, left, fit = [has for _, has in nodes], dict(limits), 0
    for row, (group, _) in enumerate(nodes):
        while fit < pods and free[row] >= cpu and left.get(group, 99) >= cpu:
            free[row] -= cpu
            left[group] = left.get(group, 99) - cpu
            fit += 1
    found = Counter(nodes[int(name[1:])][0] for name in used(plans))
    assert fit == found.total()
    assert all(found[group] * cpu <= most for group, most in limits.items())
