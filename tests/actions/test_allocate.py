"""allocate: whole gangs or nothing, role minimums, and no job blocked by a gang that does not fit."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.confs import ALLOCATE

from maar.model.jobs import Phase
from maar.model.plan import Plan
from maar.model.tasks import Status
from maar.testing.builders import Gang, cluster, gang, node
from maar.testing.scenario import configured, scene

CONFIG = configured(ALLOCATE)


def bound(plan: Plan) -> set[str]:
    """Jobs of the pods that a plan binds (pods are named `job-index`)."""
    return {b.task.rsplit("-", 1)[0] for b in plan.bind}


def test_a_gang_that_fits_starts_whole() -> None:
    plans = scene(cluster(node("n1", gpu=8), node("n2", gpu=8), gang("a", 4, gpu=4)), CONFIG)
    assert Counter(b.node for b in plans[0].bind) == {"n1": 2, "n2": 2}
    assert plans[0].waiting == ()


def test_a_gang_that_does_not_fit_starts_not_at_all() -> None:
    plans = scene(cluster(node("n1", gpu=8), node("n2", gpu=8), gang("a", 5, gpu=4)), CONFIG)
    assert plans[0].bind == ()
    (wait,) = plans[0].waiting
    assert wait.job == "ns/a"
    assert wait.reasons[0].code == "NotEnoughResources"
    assert wait.reasons[0].message == "needs 5 pods together, there is room for 4: 2/2 nodes fit"


def test_small_jobs_are_not_blocked_by_a_large_one() -> None:
    parts = (
        node("n1", gpu=8),
        gang("large", 3, gpu=4, priority=10),
        gang("small", 1, gpu=1, created=5.0),
    )
    plans = scene(cluster(*parts), CONFIG)
    assert bound(plans[0]) == {"ns/small"}


def test_the_higher_priority_goes_first_where_one_fits() -> None:
    plans = scene(
        cluster(node("n1", gpu=8), gang("early", 2, gpu=4), gang("late", 2, gpu=4, created=9.0, priority=5)), CONFIG
    )
    assert bound(plans[0]) == {"ns/late"}


def test_equal_jobs_go_by_creation_time_then_by_name() -> None:
    jobs = [gang("c", 1, gpu=8, created=2.0), gang("b", 1, gpu=8, created=1.0), gang("a", 1, gpu=8, created=2.0)]
    one = scene(cluster(node("n1", gpu=8), jobs), CONFIG)
    assert bound(one[0]) == {"ns/b"}
    two = scene(cluster(node("n1", gpu=8), node("n2", gpu=8), jobs), CONFIG)
    assert bound(two[0]) == {"ns/a", "ns/b"}


def test_surplus_comes_after_other_gangs_minimum() -> None:
    elastic = gang("elastic", 4, minimum=1, gpu=2)
    rigid = gang("rigid", 2, gpu=2, created=5.0)
    plans = scene(cluster(node("n1", gpu=8), elastic, rigid), CONFIG)
    assert Counter(b.task.rsplit("-", 1)[0] for b in plans[0].bind) == {"ns/elastic": 2, "ns/rigid": 2}
    assert [w.job for w in plans[0].waiting] == ["ns/elastic"]


def test_roles_have_their_minimum_too() -> None:
    """Two of three pods would fit. The job needs two, but one of them must be the master, which needs a large node."""
    job = gang("a", roles={"worker": 2}, minimum=2, gpu=1, role_min={"master": 1, "worker": 1})
    master = gang("a", roles={"master": 1}, gpu=8)
    whole = joined(job, master)
    alone = scene(cluster(node("small", gpu=4), whole), CONFIG)
    assert alone[0].bind == ()
    both = scene(cluster(node("small", gpu=4), node("large", gpu=8), whole), CONFIG)
    assert {b.task for b in both[0].bind} == {"ns/a-master-0", "ns/a-worker-0", "ns/a-worker-1"}


def test_roles_do_not_count_where_the_minimum_is_below_their_sum() -> None:
    """As in Volcano: minMember 1 with roles that add up to 2 means any one pod."""
    job = gang("a", roles={"worker": 2}, minimum=1, gpu=1, role_min={"master": 1, "worker": 1})
    master = gang("a", roles={"master": 1}, gpu=8)
    plans = scene(cluster(node("small", gpu=4), joined(job, master)), CONFIG)
    assert {b.task for b in plans[0].bind} == {"ns/a-worker-0", "ns/a-worker-1"}


def test_a_gang_without_enough_pods_waits_and_says_so() -> None:
    plans = scene(cluster(node("n1", gpu=8), gang("a", 2, minimum=3, gpu=1)), CONFIG)
    assert plans[0].bind == ()
    assert plans[0].waiting[0].reasons[0].code == "NotEnoughTasks"
    assert (
        plans[0].waiting[0].reasons[0].message
        == "needs 3 pods, only 2 can be placed (the others do not exist, are blocked or have ended)"
    )


def test_a_gang_that_runs_in_part_is_finished_before_anything_else() -> None:
    parts = (
        node("n1", gpu=8),
        gang("half", 2, gpu=4, on=["n1"]),
        gang("urgent", 1, gpu=4, priority=100),
    )
    plans = scene(cluster(*parts), CONFIG)
    assert {b.task for b in plans[0].bind} == {"ns/half-1"}
    assert [w.job for w in plans[0].waiting] == ["ns/urgent"]


def test_room_that_is_releasing_is_promised_and_then_bound() -> None:
    leaving = gang("old", 1, gpu=8, on=["n1"], task={"status": Status.RELEASING})
    plans = scene(cluster(node("n1", gpu=8), leaving, gang("new", 2, gpu=4)), CONFIG)
    assert plans[0].bind == ()
    assert {(n.task, n.node) for n in plans[0].nominate} == {("ns/new-0", "n1"), ("ns/new-1", "n1")}
    assert plans[0].waiting[0].reasons[0].code == "Nominated"
    assert {b.task for b in plans[1].bind} == {"ns/new-0", "ns/new-1"}
    assert plans[1].nominate == ()


def test_promised_room_is_kept_from_others() -> None:
    leaving = gang("old", 1, gpu=8, on=["n1"], task={"status": Status.RELEASING})
    promised = gang("first", 1, gpu=8, task={"status": Status.NOMINATED, "node": "n1"})
    late = gang("second", 1, gpu=4, created=-5.0)
    plans = scene(cluster(node("n1", gpu=8), leaving, promised, late), CONFIG)
    assert [b.task for p in plans for b in p.bind] == ["ns/first-0"]


def test_a_promise_on_a_lost_node_is_dropped() -> None:
    promised = gang("a", 1, gpu=8, task={"status": Status.NOMINATED, "node": "gone"})
    plans = scene(cluster(node("n1", gpu=8), promised), CONFIG)
    assert [(b.task, b.node) for b in plans[0].bind] == [("ns/a-0", "n1")]


def test_a_promise_that_cannot_be_kept_is_withdrawn() -> None:
    """The node was filled by others: the nomination must not block it forever."""
    promised = gang("a", 1, gpu=8, task={"status": Status.NOMINATED, "node": "n1"})
    foreign = gang("foreign", 1, gpu=4, on=["n1"])
    plans = scene(cluster(node("n1", gpu=8), promised, foreign), CONFIG)
    assert plans[0].nominate == ()
    assert plans[0].waiting[0].reasons[0].message == (
        "0/1 nodes fit: 1 short of nvidia.com/gpu (needs 8, best has 4 free)"
    )


def test_a_group_that_is_not_admitted_is_admitted_where_no_enqueue_is_configured() -> None:
    plans = scene(cluster(node("n1", gpu=8), gang("a", 1, gpu=1, phase=Phase.PENDING)), CONFIG)
    assert [a.job for a in plans[0].admit] == ["ns/a"]
    assert len(plans[0].bind) == 1


def test_broken_objects_wait_with_a_reason_and_the_rest_goes_on() -> None:
    parts = (
        node("n1", gpu=8),
        gang("broken", 1, gpu=1, broken="minMember: -1 is negative"),
        gang("lost", 1, gpu=1, queue="nowhere"),
        gang("fine", 1, gpu=1),
    )
    plans = scene(cluster(*parts), CONFIG)
    assert bound(plans[0]) == {"ns/fine"}
    assert {(w.job, w.reasons[0].code) for w in plans[0].waiting} == {
        ("ns/broken", "Invalid"),
        ("ns/lost", "QueueNotFound"),
    }


def test_blocked_pods_are_left_alone_and_named() -> None:
    held = gang("held", 1, gpu=1, task={"status": Status.BLOCKED, "blocked": "scheduling gates: kueue"})
    plans = scene(cluster(node("n1", gpu=8), held), CONFIG)
    assert plans[0].bind == ()
    messages = [r.message for r in plans[0].waiting[0].reasons]
    assert "pod `ns/held-0` is held back: scheduling gates: kueue" in messages


def test_a_large_surplus_is_placed_whole_when_there_is_room() -> None:
    plans = scene(cluster(node("n1", cpu=400, memory="1Ti", pods=400), gang("a", 300, minimum=1)), CONFIG)
    assert len(plans[0].bind) == 300


def test_two_elastic_jobs_share_evenly_by_turns() -> None:
    config = configured(
        ALLOCATE.replace("  - {name: predicates}", "  - {name: predicates}\n- plugins:\n  - {name: drf}")
    )
    jobs = [gang("a", 8, minimum=1, gpu=1), gang("b", 8, minimum=1, gpu=1, created=1.0)]
    plans = scene(cluster(node("n1", gpu=8), jobs), config)
    assert Counter(b.task.rsplit("-", 1)[0] for b in plans[0].bind) == {"ns/a": 4, "ns/b": 4}


def joined(one: Gang, other: Gang) -> Gang:
    """A gang with the tasks of another of the same name added."""
    return Gang(one.job, (*one.tasks, *other.tasks))


@pytest.mark.parametrize(("gpus", "expected"), [((1, 1), [10, 10]), ((1, 2), [10, 5])], ids=["equal", "larger pods"])
def test_surplus_is_shared_evenly_without_drf(gpus: tuple[int, int], expected: list[int]) -> None:
    """Above the minimums: 9 pods of one GPU each, or 9 of one GPU and 4 of two."""
    jobs = [gang(f"j{i}", 20, minimum=1, gpu=gpu, created=float(i)) for i, gpu in enumerate(gpus)]
    plans = scene(cluster(node("n1", gpu=20), jobs), configured(ALLOCATE))
    assert expected == [sum(b.task.startswith(f"ns/j{i}-") for p in plans for b in p.bind) for i in (0, 1)]
