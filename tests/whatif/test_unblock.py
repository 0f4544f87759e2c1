"""What would start a waiting job: a scene for each kind of change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support import confs

from maar.config.config import Config
from maar.config.file import default_config
from maar.model.jobs import Phase
from maar.model.plan import Elect, Lock
from maar.model.queues import Queue
from maar.model.resources import LARGEST
from maar.model.snapshot import Cluster, Quota
from maar.model.tasks import Status
from maar.registry import catalog
from maar.testing.builders import GPU, cluster, elastic, gang, node
from maar.testing.scenario import configured
from maar.whatif.answer import decided
from maar.whatif.changes import KINDS
from maar.whatif.edit import Scene
from maar.whatif.edits import in_words
from maar.whatif.job_edits import HIGHEST, SetPriority
from maar.whatif.patience import Effort
from maar.whatif.started import Start
from maar.whatif.unblock import Change, Unblocked, unblock

DEFAULT = default_config(catalog())
ALLOCATE = configured(confs.ALLOCATE)
PREEMPT = configured(confs.PREEMPT)
CAPACITY = configured(confs.CAPACITY_GUIDE)
QUOTA = configured('actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - {name: gang}\n  - {name: resourcequota}\n')


def found(kind: str, scene: Cluster, config: Config = ALLOCATE, job: str = "ns/mine") -> Change:
    """The change of one kind."""
    answer = unblock(scene, config, 100.0, job, most=len(KINDS))
    assert answer.complete
    (change,) = [change for change in answer.changes if change.kind == kind]
    return change


def kinds(answer: Unblocked) -> set[str]:
    return {change.kind for change in answer.changes}


def test_each_decision_is_asked_for_and_nothing_is_decided_twice() -> None:
    scene = cluster(node("n1", gpu=8), gang("on", gpu=8, on=["n1"]), gang("mine", 1, gpu=8, created=50.0))
    asked = 0

    def go_on(effort: Effort) -> bool:
        nonlocal asked
        asked += 1
        return True

    before = decided(Scene(scene, ALLOCATE), 100.0)
    answer = unblock(scene, ALLOCATE, 100.0, "ns/mine", go_on, before=before)
    assert {"end", "nodes"} <= kinds(answer)
    assert asked == answer.decisions


def test_a_reservation_is_released() -> None:
    scene = cluster(
        node("n1", gpu=8),
        node("n2", gpu=8),
        gang("on", gpu=8, on=["n2"]),
        gang("wide", 2, gpu=8, uid="w"),
        gang("mine", 1, gpu=2, created=50.0),
        Elect("ns/wide", 90.0, uid="w"),
        Lock("n1", "ns/wide", 90.0, uid="w"),
    )
    change = found("reservation", scene, configured(confs.RESERVE))
    assert "release the nodes that are reserved for `ns/wide`: `n1`" == change.words
    assert Start.STARTS is change.start


def test_only_the_cordoned_nodes_that_it_needs() -> None:
    names = [f"n{i}" for i in range(1, 6)]
    scene = cluster([node(name, gpu=4, unschedulable=True) for name in names], gang("mine", 3, gpu=4))
    assert "uncordon nodes `n1`, `n2`, `n3`" == found("uncordon", scene).words


def test_a_cordoned_node_without_room_is_not_named() -> None:
    scene = cluster(node("cpu", unschedulable=True), node("gpu", gpu=4, unschedulable=True), gang("mine", gpu=4))
    assert "uncordon node `gpu`" == found("uncordon", scene).words


def test_a_closed_queue_is_opened() -> None:
    scene = cluster(node("n1", gpu=4), Queue("q", open=False), gang("mine", gpu=4, queue="q"))
    assert "open queue `q`" == found("open", scene, CAPACITY).words


def test_the_limit_of_its_queue_is_raised_by_what_is_missing() -> None:
    scene = cluster(
        node("n1", gpu=16),
        Queue("q", capability={GPU: 5, "memory": 2**40}),
        gang("other", gpu=4, on=["n1"], queue="q"),
        gang("mine", 2, gpu=2, queue="q"),
    )
    change = found("limit", scene, CAPACITY)
    assert f"raise the capability of queue `q` by 3 {GPU} (5 to 8)" == change.words
    assert ((), ()) == (change.evicts, change.delays)


def test_all_limits_in_its_way_are_raised_together() -> None:
    scene = cluster(
        node("n1", gpu=16),
        Queue("top", capability={GPU: 3}),
        Queue("q", parent="top", capability={GPU: 2, "cpu": 1000}),
        gang("mine", 4, gpu=1, cpu=1, queue="q"),
    )
    change = found("limit", scene, configured(confs.CAPACITY_TREE))
    assert 3 == len(change.edits)
    for part in ("queue `q` by 2 nvidia.com/gpu (2 to 4)", "queue `q` by 3 cpu (1 to 4)", "`top` by 1 nvidia.com/gpu"):
        assert part in change.words


def test_a_quota_is_raised_by_what_is_missing() -> None:
    unborn = gang("mine", 0, minimum=2, phase=Phase.PENDING, min_resources={GPU: 4})
    quota = Quota("ns/team", {f"requests.{GPU}": 6, "pods": 50}, {f"requests.{GPU}": 3})
    change = found("limit", cluster(node("n1", gpu=8), unborn, quota), QUOTA)
    assert f"raise the ResourceQuota `ns/team` by 1 requests.{GPU} (6 to 7)" == change.words
    assert Start.ADMITTED is change.start


def test_its_minimum_is_lowered_as_little_as_possible() -> None:
    scene = cluster(node("n1", gpu=5), gang("mine", 8, gpu=1))
    assert "lower the minimum of `ns/mine` from 8 to 5 pods" == found("minimum", scene).words


def test_a_large_minimum_is_found_by_bisection() -> None:
    scene = cluster(node("n1", gpu=333, cpu=999, memory="1Ti", pods=999), gang("mine", 600, gpu=1))
    answer = unblock(scene, ALLOCATE, 100.0, "ns/mine", most=1)
    assert ["lower the minimum of `ns/mine` from 600 to 333 pods"] == [change.words for change in answer.changes]
    assert answer.decisions < 30


def test_its_priority_is_raised_above_jobs_that_must_go() -> None:
    scene = cluster(
        node("n1", gpu=4),
        node("n2", gpu=4),
        gang("low", gpu=4, on=["n1"], priority=5),
        gang("high", gpu=4, on=["n2"], priority=50),
        gang("mine", gpu=4),
    )
    change = found("priority", scene, PREEMPT)
    assert "raise the priority of `ns/mine` from 0 to 6, above `ns/low`" == change.words
    assert (Start.NOMINATED, ("ns/low",)) == (change.start, change.evicts)


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.RELEASING])
def test_jobs_that_have_ended_are_not_named(status: Status) -> None:
    scene = cluster(
        node("n1", gpu=8),
        node("n2", gpu=4),
        gang("done", 2, gpu=2, on=["n1"] * 2, priority=5, task={"status": status}),
        gang("closed", 0, minimum=1, priority=5, phase=Phase.COMPLETED),
        gang("low", gpu=4, on=["n1"], priority=5),
        gang("high", gpu=4, on=["n2"], priority=50),
        gang("mine", gpu=8),
    )
    assert (
        "raise the priority of `ns/mine` from 0 to 6, above `ns/low`"
        == in_words(Scene(scene, PREEMPT), [SetPriority("ns/mine", 6)])[0]
    )
    answer = unblock(scene, PREEMPT, 100.0, "ns/mine", most=len(KINDS))
    assert answer.changes
    assert not [c.words for c in answer.changes if "ns/done" in c.words or "ns/closed" in c.words]


def test_a_job_that_no_longer_starts_is_named() -> None:
    scene = cluster(node("n1", gpu=4), gang("first", gpu=4, priority=5), gang("mine", gpu=4))
    change = found("priority", scene)
    assert ("raise the priority of `ns/mine` from 0 to 6, above `ns/first`", ("ns/first",)) == (
        change.words,
        change.delays,
    )


def test_a_queue_that_lists_its_priority_classes_gives_no_higher_priority() -> None:
    scene = cluster(
        node("n1", gpu=4), Queue("q", priority_classes=("low",)), gang("first", gpu=4, priority=5, queue="q"),
        gang("mine", gpu=4, queue="q"),
    )  # fmt: skip
    assert "priority" not in kinds(unblock(scene, PREEMPT, 100.0, "ns/mine", most=len(KINDS)))


def test_what_its_queue_deserves_is_raised() -> None:
    scene = cluster(
        node("n1", gpu=8),
        Queue("others", deserved={GPU: 2}),
        Queue("q", deserved={GPU: 1}),
        gang("a", gpu=4, on=["n1"], queue="others"),
        gang("b", gpu=4, on=["n1"], queue="others"),
        gang("mine", gpu=3, queue="q"),
    )
    change = found("share", scene, CAPACITY)
    assert f"raise the deserved amount of queue `q` by 2 {GPU} (1 to 3)" == change.words
    assert 1 == len(change.evicts)


def test_the_weight_of_its_queue_is_raised() -> None:
    scene = cluster(
        node("n1", gpu=8),
        Queue("others"),
        Queue("q"),
        gang("a", 8, gpu=1, on=["n1"] * 8, queue="others", minimum=1),
        gang("mine", 6, gpu=1, queue="q"),
    )
    change = found("share", scene, configured(confs.RECLAIM))
    assert "raise the weight of queue `q` from 1 to 3" == change.words


def test_the_end_of_one_job_is_enough() -> None:
    scene = cluster(
        node("n1", gpu=8),
        gang("small", gpu=2, on=["n1"]),
        gang("large", gpu=6, on=["n1"], priority=9),
        gang("mine", gpu=5),
    )
    assert "end job `ns/large`" == found("end", scene).words


def test_several_jobs_end_if_one_is_not_enough() -> None:
    scene = cluster(
        node("n1", gpu=8),
        [gang(f"j{i}", gpu=2, on=["n1"], priority=i) for i in range(4)],
        gang("mine", gpu=4),
    )
    change = found("end", scene)
    assert "end jobs `ns/j0`, `ns/j1`" == change.words


def test_pods_that_belong_to_their_node_do_not_end() -> None:
    scene = cluster(node("n1", gpu=4), gang("agent", gpu=1, on=["n1"], task={"resident": True}), gang("mine", gpu=4))
    assert "end" not in kinds(unblock(scene, ALLOCATE, 100.0, "ns/mine", most=len(KINDS)))


@pytest.mark.parametrize(
    ("asks", "words"),
    [
        ({"gpu": 8}, f"request 3 {GPU} for each pod of `ns/mine` instead of 8"),
        ({"cpu": 100}, "request 64 cpu for each pod of `ns/mine` instead of 100"),
        ({"memory": "1Ti"}, "request 256Gi memory for each pod of `ns/mine` instead of 1Ti"),
    ],
)
def test_each_pod_requests_what_fits(asks: dict[str, int], words: str) -> None:
    assert words == found("request", cluster(node("n1", gpu=3), gang("mine", **asks))).words  # type: ignore[arg-type]


def test_as_few_nodes_as_possible_are_added() -> None:
    scene = cluster(
        node("small", gpu=2, labels={"kubernetes.io/hostname": "small"}),
        node("big", gpu=8, unschedulable=True),
        gang("on", gpu=8, on=["big"]),
        gang("mine", 3, gpu=4),
    )
    change = found("nodes", scene)
    assert "add 2 nodes like `big`" == change.words


def test_nodes_for_the_jobs_that_go_first_count_too() -> None:
    scene = cluster(
        node("n1", gpu=4), gang("on", gpu=4, on=["n1"]), gang("first", gpu=4), gang("mine", gpu=4, created=9)
    )
    assert "add 2 nodes like `n1`" == found("nodes", scene).words


def test_another_queue_has_room() -> None:
    scene = cluster(
        node("n1", gpu=4), Queue("a", capability={GPU: 1}), Queue("b"), gang("mine", gpu=4, queue="a"),
    )  # fmt: skip
    assert "move `ns/mine` from queue `a` to queue `b`" == found("move", scene, CAPACITY).words


def test_a_queue_that_does_not_exist_is_replaced() -> None:
    answer = unblock(cluster(node("n1", gpu=4), gang("mine", queue="typo")), DEFAULT, 100.0, "ns/mine")
    assert ["move `ns/mine` from queue `typo` to queue `default`"] == [change.words for change in answer.changes]


def test_a_suspended_elastic_job() -> None:
    scene = cluster(node("n1", gpu=4), gang("on", 3, gpu=1, on=["n1"] * 3), elastic("mine", 2, 4))
    change = found("minimum", scene, DEFAULT)
    assert "lower the minimum of `ns/mine` from 2 to 1 pod" == change.words
    assert Start.STARTS is change.start


# -- the search as a whole


def test_a_job_that_starts_needs_no_change() -> None:
    answer = unblock(cluster(node("n1", gpu=4), gang("mine", gpu=4)), DEFAULT, 100.0, "ns/mine")
    assert Unblocked(Start.STARTS, decisions=1) == answer


def test_none_found_is_an_answer() -> None:
    scene = cluster(node("n1", gpu=4), gang("mine", gpu=1, broken="spec.minMember: expected a number"))
    answer = unblock(scene, DEFAULT, 100.0, "ns/mine")
    assert (Start.WAITS, (), True) == (answer.start, answer.changes, answer.complete)


def test_the_search_ends_when_enough_is_found() -> None:
    scene = cluster(
        node("n1", gpu=4),
        node("n2", gpu=4, unschedulable=True),
        gang("on", gpu=3, on=["n1"], priority=1),
        gang("mine", 2, gpu=2),
    )
    every = unblock(scene, PREEMPT, 100.0, "ns/mine", most=len(KINDS))
    assert ["uncordon", "priority", "end", "nodes"] == [change.kind for change in every.changes]
    few = unblock(scene, PREEMPT, 100.0, "ns/mine", most=2)
    assert every.changes[:2] == few.changes
    assert few.decisions < every.decisions


BACKLOG = cluster(
    [node(f"n{i}", gpu=4) for i in range(2)],
    [gang(f"on{i}", gpu=4, on=[f"n{i}"], priority=5) for i in range(2)],
    [gang(f"first{i}", 2, gpu=4, created=1.0) for i in range(5)],
    gang("mine", 2, gpu=4, created=50.0),
)


def test_a_change_of_the_job_itself_needs_no_whole_decision() -> None:
    answer = unblock(BACKLOG, PREEMPT, 100.0, "ns/mine", lambda effort: effort is not Effort.ALL)
    assert ["priority"] == [change.kind for change in answer.changes]
    assert not answer.complete, "`nodes` would need one"


def test_what_does_not_help_the_job_alone_needs_no_whole_decision() -> None:
    wide = cluster(BACKLOG.nodes, gang("mine", 2, gpu=4, constraints={"node_selector": ()}, broken="no"))
    efforts: list[Effort] = []

    def go_on(effort: Effort) -> bool:
        efforts.append(effort)
        return True

    answer = unblock(wide, PREEMPT, 100.0, "ns/mine", go_on)
    assert ((), True) == (answer.changes, answer.complete)
    assert {Effort.ONE} == set(efforts)


def test_a_number_that_is_enough_alone_is_not_always_enough() -> None:
    """Twelve nodes: jobs that go first take ten."""
    answer = unblock(BACKLOG, ALLOCATE, 100.0, "ns/mine", most=len(KINDS))
    assert "add 12 nodes like `n0`" in [change.words for change in answer.changes]


def test_the_budget_ends_the_search() -> None:
    left = iter([True] * 3)
    scene = cluster(node("n1", gpu=4, unschedulable=True), node("n2", gpu=4), gang("mine", 3, gpu=4))
    answer = unblock(scene, DEFAULT, 100.0, "ns/mine", lambda effort: next(left, False))
    assert not answer.complete
    assert answer.decisions <= 1 + 3 + len(answer.changes)


def test_the_order_of_the_input_does_not_matter() -> None:
    scene = cluster(
        [node(f"n{i}", gpu=2, unschedulable=i > 1) for i in range(4)],
        [gang(f"j{i}", gpu=2, on=[f"n{i}"]) for i in range(2)],
        gang("mine", 2, gpu=2),
    )
    turned = replace(scene, nodes=scene.nodes[::-1], jobs=scene.jobs[::-1], tasks=scene.tasks[::-1])
    assert unblock(scene, DEFAULT, 100.0, "ns/mine") == unblock(turned, DEFAULT, 100.0, "ns/mine")


def test_the_documentation_has_all_kinds_in_their_order() -> None:
    page = (Path(__file__).parents[2] / "docs" / "why.md").read_text()
    assert list(KINDS) == re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)


def test_values_that_no_edit_may_set() -> None:
    """Tenants write them: the search goes on without them."""
    scene = cluster(
        node("n1", gpu=4),
        Queue("q", weight=2**31 - 1, capability={GPU: LARGEST - 1}),
        gang("mine", 2**10, gpu=2**47, queue="q", priority=HIGHEST + 5),
        elastic("odd", 3, 2, job={"min_member": 2**40, "queue": "q"}),
        gang("unborn", 0, minimum=2**31, phase=Phase.PENDING, min_resources={GPU: LARGEST}, queue="q"),
    )
    for job in scene.jobs:
        answer = unblock(scene, DEFAULT, 100.0, job.key, most=len(KINDS))
        assert answer.complete, job.key
