"""The plan is the difference between the session's state and the snapshot, with reasons for waiting jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.facts import facts, lost_of

from maar.config.config import PluginOption, Registration
from maar.model.facts import Lost
from maar.model.jobs import Phase
from maar.model.plan import Admit, Bind, Cause, Elect, Evict, Lock, Nominate, Plan, Wait
from maar.model.queues import Queue
from maar.model.reasons import Reason
from maar.model.tasks import Status
from maar.plugins import gang as gang_plugin
from maar.session.plan import plan_of
from maar.session.register import Register
from maar.session.session import Session
from maar.testing.builders import cluster, gang, node

Opened = Callable[..., Session]
GANG = PluginOption(Registration("gang", gang_plugin.Gang, gang_plugin.Arguments), gang_plugin.Arguments())


def put(session: Session, verb: Any, key: str, row: int) -> None:
    task = session.snapshot.tasks.number[key]
    table = session.snapshot.tasks
    verb(int(table.job[task]), int(table.shape[task]), np.array([task]), np.array([row]), np.array([1]))


def reasons_by_job(plan: Plan) -> dict[str, list[tuple[str, str]]]:
    return {w.job: [(r.code, r.message) for r in w.reasons] for w in plan.waiting}


def electing(session: Session, on: Register) -> None:
    """A plugin that elects no job, and keeps an election."""
    on.target_job(lambda jobs: None)


def test_nothing_done_is_an_empty_plan(opened: Opened) -> None:
    session = opened(cluster(node("n1"), gang("a", on=["n1"])))
    assert Plan() == plan_of(session)
    assert not plan_of(session).moves


def test_what_was_committed_is_in_the_plan(opened: Opened) -> None:
    session = opened(
        cluster(
            node("n1", gpu=2),
            node("n2", gpu=2),
            gang("a", gpu=1),
            gang("b", gpu=1),
            gang("low", 2, gpu=1, on=["n1", "n2"]),
            gang("kept", gpu=1, task={"status": Status.NOMINATED, "node": "n2"}),
        )
    )
    for_b = session.job(session.snapshot.jobs.number["ns/b"])
    with session.statement() as statement:
        put(session, session.state.bind, "ns/a-0", 0)
        session.evict(session.snapshot.tasks.number["ns/low-1"], for_b, "needed", Cause.PREEMPTED)
        put(session, session.state.nominate, "ns/b-0", 1)
        statement.commit()
    with session.statement():
        session.evict(session.snapshot.tasks.number["ns/low-0"], for_b, "not committed", Cause.PREEMPTED)
    plan = plan_of(session)
    assert (Bind("ns/a-0", "n1"),) == plan.bind
    assert (Evict("ns/low-1", "ns/b", "needed", Cause.PREEMPTED),) == plan.evict
    assert (Nominate("ns/b-0", "n2"), Nominate("ns/kept-0", "n2")) == plan.nominate
    assert plan.moves


def test_an_eviction_that_was_rolled_back_is_no_eviction(opened: Opened) -> None:
    """The operator then deletes the pod (the job shrinks). The plan once contained the rolled-back eviction."""
    session = opened(cluster(node("n1", gpu=2), gang("low", gpu=1, on=["n1"]), gang("b", gpu=1)))
    low, for_b = session.snapshot.tasks.number["ns/low-0"], session.job(session.snapshot.jobs.number["ns/b"])
    with session.statement():
        session.evict(low, for_b, "not committed", Cause.PREEMPTED)
    session.state.evict(low)
    assert () == plan_of(session).evict


def test_a_promise_is_no_move_and_a_withdrawn_one_is_not_in_the_plan(opened: Opened) -> None:
    session = opened(
        cluster(node("n1"), gang("a", 2, task={"status": Status.NOMINATED, "node": "n1"})),
    )
    session.state.withdraw(0)
    plan = plan_of(session)
    assert (Nominate("ns/a-1", "n1"),) == plan.nominate
    assert not plan.moves


def test_admissions_elections_locks_and_the_next_look(opened: Opened) -> None:
    jobs = [gang(name, phase=Phase.PENDING, uid=f"uid-{name}") for name in "zbca"]
    session = opened(cluster(node("n1"), jobs), [electing], now=5.0)
    a, b, c, z = (session.job(session.snapshot.jobs.number[f"ns/{name}"]) for name in "abcz")
    for job in (b, a):
        session.admit(job)
    for job in (z, c):
        session.set_target(job)
        session.lock("n3", job)
        session.expire_target()
    session.set_target(a, (("cpu", 4),))
    for name in ("n2", "n1"):
        session.lock(name, a)
    for at in (9.0, 7.0, 5.0, 3.0):
        session.wake(at)
    plan = plan_of(session)
    assert (Admit("ns/a"), Admit("ns/b")) == plan.admit
    assert Elect("ns/a", 5.0, "uid-a", (("cpu", 4),)) == plan.elect
    assert (Lock("n1", "ns/a", 5.0, "uid-a"), Lock("n2", "ns/a", 5.0, "uid-a")) == plan.locks
    assert (Lost("ns/c", 5.0, "uid-c"), Lost("ns/z", 5.0, "uid-z")) == lost_of(plan)
    assert 7.0 == plan.wake_at


def test_without_a_plugin_that_elects_there_is_no_election(opened: Opened) -> None:
    lost = (Lost("ns/a", 0.0),)
    made = cluster(node("n1"), gang("a"), Elect("ns/a", 0.0), Lock("n1", "ns/a", 0.0), facts=facts(*lost))
    assert (None, (), ()) == ((plan := plan_of(opened(made))).elect, plan.locks, lost_of(plan))
    kept = plan_of(opened(made, [electing]))
    assert (Elect("ns/a", 0.0), (Lock("n1", "ns/a", 0.0),), lost) == (kept.elect, kept.locks, lost_of(kept))


@pytest.mark.parametrize(
    "lock",
    [
        Lock("n2", "ns/a", 0.0, "uid-a"),
        Lock("n1", "ns/b", 0.0, "uid-b"),
        Lock("n1", "ns/a", 0.0, "uid-of-a-deleted-job"),
    ],
)
def test_a_lock_of_another_job_or_on_a_missing_node_is_released(opened: Opened, lock: Lock) -> None:
    jobs = [gang("a", uid="uid-a"), gang("b", uid="uid-b")]
    made = cluster(node("n1"), jobs, Elect("ns/a", 0.0, "uid-a"), lock)
    assert () == plan_of(opened(made, [electing])).locks


def test_a_lost_election_is_forgotten_with_its_job(opened: Opened) -> None:
    lost = (Lost("ns/a", 0.0, "uid-a"), Lost("ns/gone", 0.0, "uid-gone"), Lost("ns/b", 0.0, "uid-of-old-b"))
    made = cluster(node("n1"), gang("a", uid="uid-a"), gang("b", uid="uid-b"), facts=facts(*lost))
    assert lost[:1] == lost_of(plan_of(opened(made, [electing])))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([gang("x", broken="minMember is negative: -1")], ("Invalid", "minMember is negative: -1")),
        ([gang("x", queue="nowhere")], ("QueueNotFound", "queue `nowhere` does not exist")),
        (
            [gang("x", queue="q"), Queue("q", parent="gone")],
            ("QueueInvalid", "queue `q`: parent queue `gone` does not exist"),
        ),
        ([gang("x", phase=Phase.PENDING)], ("NotAdmitted", "its group was not admitted")),
        ([gang("x", 0, minimum=2)], ("NoPods", "its pods are not created yet")),
        (
            [gang("x", task={"status": Status.BLOCKED, "blocked": "scheduling gate `wait`"})],
            ("Blocked", "pod `ns/x-0` is held back: scheduling gate `wait`"),
        ),
        (
            [gang("x", 2, task={"status": Status.NOMINATED, "node": "n1"})],
            ("Nominated", "2 pods wait for room that is being freed on n1"),
        ),
        (
            [gang("x", 2, minimum=3)],
            (
                "NotEnoughTasks",
                "needs 3 pods, only 2 can be placed (the others do not exist, are blocked or have ended)",
            ),
        ),
        ([gang("x", cpu=99)], ("NotEnoughResources", "0/1 nodes fit: 1 short of cpu (needs 99, best has 64 free)")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_every_waiting_job_has_a_reason(opened: Opened, parts: list[Any], expected: tuple[str, str]) -> None:
    plan = plan_of(opened(cluster(node("n1"), *parts), [GANG]))
    assert {"ns/x": [expected]} == reasons_by_job(plan)


def test_reasons_say_since_when(opened: Opened) -> None:
    session = opened(
        cluster(node("n1"), gang("a", queue="no", created=3.0), gang("b", queue="no", created=3.0, waiting_since=4.0))
    )
    assert [3.0, 4.0] == [w.reasons[0].since for w in plan_of(session).waiting]


def test_the_plugin_gang_refuses_nothing_where_it_does_not_run(opened: Opened) -> None:
    plan = plan_of(opened(cluster(node("n1"), gang("x", 0, minimum=2)), []))
    assert [("maar", "NoPods")] == [(r.plugin, r.code) for wait in plan.waiting for r in wait.reasons]


def test_notes_of_actions_are_added_once(opened: Opened) -> None:
    session = opened(cluster(node("n1"), gang("a", cpu=99)), [GANG])
    note = Reason("preempt", "NoVictims", "no running pod may be preempted for it")
    session.note(session.job(0), note)
    session.note(session.job(0), note)
    (wait,) = plan_of(session).waiting
    assert ["NotEnoughResources", "NoVictims"] == [r.code for r in wait.reasons]


def test_a_pod_bound_and_then_displaced_stays_pending(opened: Opened) -> None:
    """It got room in this cycle, and a more important job took it: no pod is evicted."""
    session = opened(cluster(node("n1", gpu=1), gang("low", gpu=1), gang("high", gpu=1, priority=5)), [GANG])
    put(session, session.state.bind, "ns/low-0", 0)
    high = session.job(session.snapshot.jobs.number["ns/high"])
    session.evict(session.snapshot.tasks.number["ns/low-0"], high, "preempted", Cause.PREEMPTED)
    put(session, session.state.nominate, "ns/high-0", 0)
    plan = plan_of(session)
    assert ((), (), (Nominate("ns/high-0", "n1"),)) == (plan.bind, plan.evict, plan.nominate)
    assert [("GaveWay", "1 pod would fit, but the room goes to `ns/high`")] == reasons_by_job(plan)["ns/low"]


def test_jobs_that_run_are_not_mentioned(opened: Opened) -> None:
    session = opened(cluster(node("n1"), gang("runs", on=["n1"]), gang("waits", queue="no")))
    assert ["ns/waits"] == [w.job for w in plan_of(session).waiting]
    assert isinstance(plan_of(session).waiting[0], Wait)
