"""Units of victims: surplus one by one, whole gangs, and the cost of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from maar.model.queues import Queue
from maar.model.tasks import Status
from maar.session.eviction.units import Unit
from maar.session.eviction.victims import CandidateBook, Candidates, find
from maar.session.hooks import Claim, GangRules
from maar.session.register import Register
from maar.session.session import Session
from maar.testing.builders import Gang, Part, cluster, elastic, gang, node, shape, tasks

Opened = Callable[..., Session]


def gangs(whole: bool = True) -> Callable[[Session, Register], None]:
    """Minimums as in the gang plugin, and a vote that permits every eviction."""

    def open_session(session: Session, on: Register) -> None:
        def role_minimums(job: Any) -> Mapping[int, int]:
            return {r.index: r.minimum for r in session.snapshot.jobs.roles[job.index] if r.minimum}

        on.gang(GangRules(lambda job: job.min_member, role_minimums, whole, whole))
        on.preemptable(lambda claim, tasks: np.ones(len(tasks), dtype=np.bool_))
        on.reclaimable(lambda claim, tasks: np.ones(len(tasks), dtype=np.bool_))

    return open_session


def candidates(session: Session, across_queues: bool = False) -> Candidates:
    job = session.job(session.snapshot.jobs.number["ns/claimant"])
    return CandidateBook(session).others(Claim(job, 0, across_queues))


def scene(opened: Opened, *parts: Part, whole: bool = True, now: float = 10.0) -> Session:
    made = cluster([node("n1", gpu=8), node("n2", gpu=8)], gang("claimant", 4, gpu=1, priority=5), *parts)
    return opened(made, [gangs(whole)], now=now)


def units(session: Session, found: Candidates) -> list[list[str]]:
    return [[session.snapshot.tasks.tasks[t].key.removeprefix("ns/") for t in u.tasks] for u in found.units()]


def running(name: str, count: int, **fields: Any) -> Gang:
    return gang(name, count, gpu=1, on=["n1"] * count, **fields)


def keys(session: Session, found: Candidates) -> list[str]:
    return [session.snapshot.tasks.tasks[t].key.removeprefix("ns/") for t in found.tasks.tolist()]


# -- candidates


def test_inside_a_queue_only_lower_priority(opened: Opened) -> None:
    session = scene(
        opened,
        Queue("other"),
        running("low", 1),
        running("equal", 1, priority=5),
        running("high", 1, priority=6),
        running("elsewhere", 1, queue="other"),
        gang("waits", gpu=1),
    )
    assert ["low-0"] == keys(session, candidates(session))


def test_between_queues_whatever_the_priority(opened: Opened) -> None:
    session = scene(
        opened,
        Queue("other"),
        Queue("closed", reclaimable=False),
        running("mine", 1),
        running("high", 1, priority=9, queue="other"),
        running("kept", 1, queue="closed"),
        running("lost", 1, queue="nowhere"),
    )
    assert ["high-0"] == keys(session, candidates(session, across_queues=True))


def test_tasks_that_are_never_candidates(opened: Opened) -> None:
    session = scene(
        opened,
        running("pinned", 1, task={"preemptable": False}),
        running("daemon", 1, task={"resident": True}),
        gang("gone", gpu=1, on=["no-such-node"]),
        gang("leaving", gpu=1, task={"status": Status.RELEASING, "node": "n1"}),
        gang("promised", gpu=1, task={"status": Status.NOMINATED, "node": "n1"}),
    )
    assert [] == keys(session, candidates(session))


@pytest.mark.parametrize("across_queues", [False, True])
@pytest.mark.parametrize(("launcher", "expected"), [(Status.BOUND, True), (Status.SUCCEEDED, False)])
def test_a_finished_job_is_no_candidate_before_its_operator_reports_it(
    opened: Opened, across_queues: bool, launcher: Status, expected: bool
) -> None:
    """A launcher that succeeded ends its job; workers stopped now would only run again."""
    job = elastic("low", 2, 2, on=["n1"] * 2, job={"queue": "other" if across_queues else "default"})
    beside = tasks("ns/low", 1, shape(cpu=1), on=["n1"], role="launcher", status=launcher)
    session = scene(opened, Queue("other"), replace(job, tasks=(*job.tasks, *beside)))
    found = keys(session, candidates(session, across_queues))
    assert expected == bool(found)


def test_voters_judge_each_task_alone(opened: Opened) -> None:
    asked: list[bool] = []

    def voter(session: Session, on: Register) -> None:
        def vote(claim: Claim, tasks: Any) -> Any:
            asked.append(claim.together)
            return np.array([session.snapshot.tasks.tasks[t].index == 0 for t in tasks.tolist()])

        on.preemptable(vote)

    made = cluster(node("n1", gpu=8), gang("claimant", priority=5), running("low", 2))
    session = opened(made, [voter])
    found = find(session, Claim(session.job(session.snapshot.jobs.number["ns/claimant"]), 0, False))
    assert ["ns/low-0"] == [session.snapshot.tasks.tasks[t].key for t in found.tolist()]
    assert [False] == asked


# -- units


def test_surplus_goes_one_by_one_and_then_the_gang(opened: Opened) -> None:
    session = scene(opened, running("low", 4, minimum=2))
    assert [["low-3"], ["low-2"], ["low-0", "low-1", "low-2", "low-3"]] == units(session, candidates(session))


def test_without_whole_gangs_only_surplus(opened: Opened) -> None:
    session = scene(opened, running("low", 3, minimum=2), running("tight", 2), whole=False)
    assert [["low-2"]] == units(session, candidates(session))


def test_a_gang_goes_whole_only_if_every_member_may(opened: Opened) -> None:
    made = running("low", 3, minimum=2)
    pinned = replace(made, tasks=(replace(made.tasks[0], preemptable=False), *made.tasks[1:]))
    session = scene(opened, pinned)
    assert [["low-2"]] == units(session, candidates(session))


def test_surplus_shrinks_as_it_goes(opened: Opened) -> None:
    session = scene(opened, running("low", 4, minimum=2))
    found = candidates(session)
    session.state.evict(session.snapshot.tasks.number["ns/low-3"])
    assert [["low-2"], ["low-0", "low-1", "low-2"]] == units(session, found)
    session.state.evict(session.snapshot.tasks.number["ns/low-2"])
    assert [["low-0", "low-1"]] == units(session, found)


def test_a_role_at_its_minimum_has_no_surplus(opened: Opened) -> None:
    job = gang("low", gpu=1, roles={"ps": 2, "worker": 2}, minimum=3, role_min={"ps": 2}, on=["n1"] * 4)
    session = scene(opened, job, whole=False)
    assert [["low-worker-1"]] == units(session, candidates(session))


def test_done_pods_count_towards_the_minimum(opened: Opened) -> None:
    made = running("low", 3, minimum=2)
    done = replace(made, tasks=(replace(made.tasks[0], status=Status.SUCCEEDED), *made.tasks[1:]))
    session = scene(opened, done)
    assert [["low-2"], ["low-1", "low-2"]] == units(session, candidates(session))


@pytest.mark.parametrize(
    ("one", "other", "first"),
    [
        ({"priority": 1}, {"priority": 0}, "b"),
        ({"minimum": 1}, {"minimum": 0}, "b"),  # surplus before a gang
        ({"minimum": 0, "task": {"priority": 1}}, {"minimum": 0, "task": {"priority": 2, "started": 9.0}}, "a"),
        ({"task": {"started": 0.0}}, {"task": {"started": 8.0}}, "b"),  # less work lost
        ({"task": {"started": 0.0, "checkpoint": 9.0}}, {"task": {"started": 8.0}}, "a"),
        ({"task": {"started": 8.0, "checkpoint": 2.0}}, {"task": {"started": 7.0}}, "a"),  # checkpoint of an older run
        ({}, {}, "a"),  # then the key
    ],
)
def test_the_cheapest_goes_first(opened: Opened, one: dict[str, Any], other: dict[str, Any], first: str) -> None:
    session = scene(opened, running("a", 1, **one), running("b", 1, **other))
    assert [f"{first}-0"] == units(session, candidates(session))[0]


def test_work_lost_is_in_gpu_seconds_then_cpu_seconds(opened: Opened) -> None:
    session = scene(opened, gang("a", 2, gpu=3, cpu=2, on=["n1", "n1"], task={"started": 4.0}), now=10.0)
    found = candidates(session)
    assert (36.0, 24_000.0) == found.work(tuple(found.tasks.tolist()))


def test_a_pod_bound_in_this_cycle_loses_no_work(opened: Opened) -> None:
    session = scene(opened, gang("a", gpu=1))
    job = session.snapshot.jobs.number["ns/a"]
    task = session.snapshot.jobs.members[job]
    session.state.bind(job, int(session.snapshot.tasks.shape[task[0]]), task, np.array([0]), np.array([1]))
    found = candidates(session)
    assert (0.0, 0.0) == found.work(tuple(found.tasks.tolist()))


def test_a_unit_is_voted_on_again_as_it_goes(opened: Opened) -> None:
    """Each of three pods may be evicted alone, but not all together: the budget is two."""

    def budget(session: Session, on: Register) -> None:
        gangs()(session, on)
        on.preemptable(lambda claim, tasks: np.arange(len(tasks)) < (2 if claim.together else len(tasks)))

    made = cluster(node("n1", gpu=8), gang("claimant", gpu=1, priority=5), running("low", 3), running("small", 2))
    session = opened(made, [budget])
    found = candidates(session)
    by_size = {len(unit.tasks): unit for unit in found.units()}
    assert {2, 3} == set(by_size)
    assert found.agreed(by_size[2])
    assert not found.agreed(by_size[3])
    found.refuse(by_size[3])
    assert [["small-0", "small-1"]] == units(session, found)


def test_who_judges_each_task_alone_is_asked_once(opened: Opened) -> None:
    asked: list[bool] = []

    def vote(claim: Claim, tasks: Any) -> Any:
        asked.append(claim.together)
        return np.ones(len(tasks), dtype=np.bool_)

    def open_session(session: Session, on: Register) -> None:
        gangs()(session, on)
        on.preemptable(vote, alone=True)

    session = opened(cluster(node("n1", gpu=8), gang("claimant", gpu=1, priority=5), running("low", 3)), [open_session])
    found = candidates(session)
    assert all(found.agreed(unit) for unit in found.units())
    assert [False] == asked
    other = Unit(session.snapshot.jobs.number["ns/claimant"], (0,), False)
    assert found.agreed(other), "a task that is no candidate is asked about"
    assert [False, True] == asked
