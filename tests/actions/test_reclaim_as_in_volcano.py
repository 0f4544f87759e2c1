"""reclaim under configuration files of Volcano's users: what is taken, from which queue, and why nothing is."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.confs import CAPACITY_GUIDE, CAPACITY_TREE, HELM_RECLAIM, RECLAIM

from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.testing.builders import GPU, Gang, cluster, gang, node
from maar.testing.scenario import configured, cycles, scene

BOTH = pytest.mark.parametrize("file", [HELM_RECLAIM, CAPACITY_GUIDE], ids=["helm", "capacity"])
GANG = "name: gang\n    enablePreemptable: false"


def gpus(amount: int) -> dict[str, int]:
    return {GPU: amount}


def queue(name: str, amount: int, **fields: object) -> Queue:
    """A queue that deserves this many GPUs, by its weight and by its declaration."""
    return Queue(name, weight=amount, deserved=gpus(amount), **fields)  # type: ignore[arg-type]


def singles(queue: str, count: int, running: bool = False, **fields: object) -> list[Gang]:
    """Jobs of one pod with one GPU."""
    on = ["n1"] if running else []
    return [gang(f"{queue}{i}", gpu=1, on=on, queue=queue, **fields) for i in range(count)]  # type: ignore[arg-type]


def stuck(queue: str) -> Gang:
    """A gang that no node takes: by its request, `queue` deserves all that its weight gives it."""
    return gang(f"{queue}99", 6, gpu=1, queue=queue, constraints={"node_terms": ()})


def losses(plans: list[Plan]) -> Counter[str]:
    """How many pods each queue lost; jobs here are named `<queue><number>`."""
    return Counter(e.task.removeprefix("ns/").rstrip("0123456789-") for plan in plans for e in plan.evict)


# -- whole gangs


@BOTH
def test_a_queue_below_its_share_gets_it_back_from_jobs_of_one_pod(file: str) -> None:
    parts = (node("n1", gpu=8), queue("a", 2), queue("b", 6), singles("a", 8, running=True), singles("b", 8))
    config = configured(file)
    plans = scene(cluster(*parts), config)
    assert {"a": 6} == losses(plans)
    _, after = cycles(cluster(*parts), config, len(plans))
    assert {"a": 2, "b": 6} == Counter(t.job[3] for t in after.tasks if t.node)


@BOTH
def test_gangs_go_whole(file: str) -> None:
    taken = [gang(f"a{i}", 2, gpu=1, on=["n1", "n1"], queue="a") for i in range(4)]
    parts = (node("n1", gpu=8), queue("a", 4), queue("b", 4), taken, gang("b0", 2, gpu=2, queue="b"))
    plans = scene(cluster(*parts), configured(file))
    assert {"a": 4} == losses(plans)
    assert 2 == len({e.task.rsplit("-", 1)[0] for e in plans[0].evict})


@BOTH
@pytest.mark.parametrize(
    "gang_plugin",
    [
        f"{GANG}\n    enableReclaimable: true",
        f"{GANG}\n    arguments: {{gang.eviction: surplus}}",
    ],
    ids=["flag", "argument"],
)
def test_an_explicit_word_protects_all_minimums(file: str, gang_plugin: str) -> None:
    config = configured(file.replace(GANG, gang_plugin))
    parts = (node("n1", gpu=8), queue("a", 2), queue("b", 6), singles("a", 8, running=True), singles("b", 8))
    assert {} == losses(scene(cluster(*parts), config))


@pytest.mark.parametrize("sharing", ["{name: proportion}", "{name: capacity}", "{name: drf, enableHierarchy: true}"])
@pytest.mark.parametrize("same_tier", [True, False])
def test_the_gang_plugin_protects_minimums_in_the_tier_that_names_victims(sharing: str, same_tier: bool) -> None:
    next_tier = "" if same_tier else "- plugins:\n"
    text = f"actions: 'allocate, reclaim'\ntiers:\n- plugins:\n  - name: gang\n{next_tier}  - {sharing}\n"
    parts = (node("n1", gpu=8), queue("a", 4), queue("b", 4), singles("a", 8, running=True), singles("b", 4))
    expected = {} if same_tier else {"a": 4}
    assert expected == losses(scene(cluster(*parts), configured(text)))


# -- which queue loses pods


@BOTH
def test_the_queue_most_above_its_share_loses_first(file: str) -> None:
    """`b` has three times its share, `c` twice: the first pod comes from `b`, although `c` runs less important jobs."""
    parts = (
        node("n1", gpu=10),
        (queue("a", 6), queue("b", 2), queue("c", 2)),
        singles("b", 6, running=True, priority=9),
        singles("c", 4, running=True),
        singles("a", 1),
        stuck("a"),
    )
    assert {"b": 1} == losses(scene(cluster(*parts), configured(file)))


@BOTH
@pytest.mark.parametrize("one_gang", [True, False])
def test_queues_lose_in_turn_as_their_shares_change(file: str, one_gang: bool) -> None:
    """`b` loses two of its six pods, until it has twice its share like `c`; then each loses one."""
    claims = [gang("a0", 4, gpu=1, queue="a")] if one_gang else singles("a", 4)
    parts = (
        node("n1", gpu=10),
        (queue("a", 6), queue("b", 2), queue("c", 2)),
        singles("b", 6, running=True),
        singles("c", 4, running=True),
        claims,
        stuck("a"),
    )
    assert {"b": 3, "c": 1} == losses(scene(cluster(*parts), configured(file)))


@BOTH
def test_a_queue_of_lower_priority_loses_first(file: str) -> None:
    parts = (
        node("n1", gpu=10),
        (queue("a", 6, priority=1), queue("b", 2, priority=5), queue("c", 2, priority=3)),
        singles("b", 6, running=True),
        singles("c", 4, running=True, priority=9),
        singles("a", 3),
        stuck("a"),
    )
    assert {"c": 2, "b": 1} == losses(scene(cluster(*parts), configured(file)))


@BOTH
def test_the_order_of_queues_holds_between_nodes(file: str) -> None:
    """Each queue has a node of its own. After one eviction both are equal, and `c` has less important jobs."""
    parts = (
        [node("n1", gpu=6), node("n2", gpu=5)],
        (queue("a", 5), queue("b", 3), queue("c", 3)),
        [gang(f"b{i}", gpu=1, on=["n1"], queue="b", priority=9) for i in range(6)],
        [gang(f"c{i}", gpu=1, on=["n2"], queue="c") for i in range(5)],
        singles("a", 2),
        stuck("a"),
    )
    assert {"b": 1, "c": 1} == losses(scene(cluster(*parts), configured(file)))


@BOTH
@pytest.mark.parametrize("one_gang", [True, False])
def test_the_order_of_queues_holds_on_nodes_that_they_share(file: str, one_gang: bool) -> None:
    """The order changes with each eviction, on all nodes at once; the jobs of `b` are the least important."""
    running = [
        gang(f"{q}{n}{k}", gpu=1, on=[f"n{n}"], queue=q, priority=priority)
        for n in (1, 2, 3)
        for q, priority in (("b", 0), ("c", 5), ("d", 9))
        for k in (1, 2)
    ]
    parts = (
        [node(f"n{n}", gpu=6) for n in (1, 2, 3)],
        (queue("a", 9), queue("b", 3), queue("c", 3), queue("d", 3)),
        running,
        [gang("a0", 6, gpu=1, queue="a")] if one_gang else singles("a", 6),
        stuck("a"),
    )
    assert {"b": 2, "c": 2, "d": 2} == losses(scene(cluster(*parts), configured(file)))


def test_surplus_goes_before_the_gangs_of_a_queue_that_is_further_above_its_share() -> None:
    parts = (
        node("n1", gpu=10),
        (queue("a", 6), queue("b", 2), queue("c", 2)),
        singles("b", 6, running=True),
        gang("c0", 4, minimum=2, gpu=1, on=["n1"] * 4, queue="c"),
        singles("a", 1),
        stuck("a"),
    )
    assert {"c": 1} == losses(scene(cluster(*parts), configured(HELM_RECLAIM)))


def test_in_a_tree_the_nearest_relative_loses_first() -> None:
    """`far` is further above its share than `near`, and has lower priority."""
    parts = (
        node("n1", gpu=12),
        (queue("org", 6), queue("other", 6)),
        (queue("a", 4, parent="org"), queue("near", 2, parent="org", priority=5), queue("far", 2, parent="other")),
        singles("near", 4, running=True, priority=9),
        singles("far", 8, running=True),
        singles("a", 1),
    )
    assert {"near": 1} == losses(scene(cluster(*parts), configured(CAPACITY_TREE)))


# -- a gang larger than its queue's excess


@pytest.mark.parametrize("tenants", ["", "tenants: untrusted\n"], ids=["trusted", "untrusted"])
@pytest.mark.parametrize("file", [HELM_RECLAIM, CAPACITY_GUIDE, RECLAIM], ids=["helm", "capacity", "whole"])
@pytest.mark.parametrize(("pods", "gpu"), [(8, 1), (1, 8)], ids=["gang", "pod"])
def test_a_gang_is_reclaimed_like_a_pod_of_its_size(pods: int, gpu: int, file: str, tenants: str) -> None:
    """A pod of 8 GPUs is not divided either: its owner cannot keep what others deserve by the way she divides it."""
    parts = (node("n1", gpu=8), queue("a", 4), queue("b", 4), gang("b0", pods, gpu=gpu, on=["n1"] * pods, queue="b"))
    plans = scene(cluster(*parts, gang("a0", gpu=4, queue="a")), configured(file + tenants))
    assert {"b": pods} == losses(plans)
    assert {"ns/a0-0"} == {b.task for plan in plans for b in plan.bind}


@pytest.mark.parametrize("file", [HELM_RECLAIM, CAPACITY_GUIDE, RECLAIM], ids=["helm", "capacity", "whole"])
@pytest.mark.parametrize(("pods", "gpu"), [(8, 1), (1, 8)], ids=["gang", "pod"])
def test_a_gang_that_a_guarantee_needs_stays_and_the_waiting_job_says_so(pods: int, gpu: int, file: str) -> None:
    kept = Queue("b", deserved={"nvidia.com/gpu": 4}, guarantee={"nvidia.com/gpu": 2})
    parts = (node("n1", gpu=8), queue("a", 4), kept, gang("b0", pods, gpu=gpu, on=["n1"] * pods, queue="b"))
    plans = scene(cluster(*parts, gang("a0", gpu=4, queue="a")), configured(file))
    assert {} == losses(plans)
    if pods > 1:
        (reason,) = (r for w in plans[0].waiting for r in w.reasons if r.code == "NotEnoughVictims")
        kept_by = "the minimum of gang `ns/b0` is within what its queue `b` deserves or is guaranteed"
        assert f"{kept_by}, and gangs are never reclaimed in part" == reason.message
