"""Liveness: a gang that fits starts, a waiting job has a reason, and a settled cluster stays settled."""

from __future__ import annotations

from hypothesis import given, note, settings
from msgspec.structs import replace
from tests.support.strategies import QUEUES, clusters, described, least, short

from maar.config.file import default_config
from maar.decide import decide
from maar.model.jobs import Job
from maar.model.outcome import carry_out
from maar.model.plan import Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status, Task
from maar.registry import catalog
from maar.session.explain import why_waiting
from maar.session.session import Session
from maar.testing.scenario import cycles, scene

CONFIG = default_config(catalog())
NOW = 10.0


def decided(cluster: Cluster, now: float = NOW) -> Plan:
    """The plan; the notes of a failing example show its input."""
    plan = decide(Snapshot(cluster), CONFIG, now)
    note(described(cluster))
    note(f"{now}: bind {plan.bind}\n  nominate {plan.nominate}\n  evict {plan.evict}\n  locks {plan.locks}")
    return plan


@settings(max_examples=150, deadline=None)
@given(clusters(gangs=1))
def test_a_gang_that_fits_alone_starts_at_once(cluster: Cluster) -> None:
    """On an idle cluster, by counting how many tasks of its shape fit on all nodes together."""
    idle = [replace(t, status=Status.PENDING, node="", started=None) for t in cluster.tasks]
    cluster = replace(cluster, tasks=tuple(idle))
    plan = decided(cluster)
    for job in cluster.jobs:
        members = [t for t in idle if t.job == job.key]
        if members and len({t.shape for t in members}) == 1:
            room = sum(how_many(n.allocatable, members[0]) for n in cluster.nodes)
            expected = min(room, len(members)) if room >= least(job, members) else 0
            assert expected == len(plan.bind)
            assert () == (plan.nominate, plan.evict)[len(plan.bind) > 0 :][0]


@settings(max_examples=150, deadline=None)
@given(clusters())
def test_every_waiting_job_has_a_reason(cluster: Cluster) -> None:
    plan = decided(cluster)
    told = {w.job: w.reasons for w in plan.waiting}
    after = carry_out(cluster, plan, NOW)
    waiting = {t.job for t in after.tasks if t.status in (Status.PENDING, Status.NOMINATED)}
    assert waiting <= set(told)
    assert [] == [job for job, reasons in told.items() if not reasons or not all(r.message for r in reasons)]
    assert [] == [job for job, reasons in told.items() if any("\n" in r.message for r in reasons)]


@settings(max_examples=150, deadline=None)
@given(clusters())
def test_it_wakes_in_the_future_or_not_at_all(cluster: Cluster) -> None:
    plan = decided(cluster)
    assert plan.wake_at is None or plan.wake_at > NOW


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_what_is_carried_out_settles_and_stays(cluster: Cluster) -> None:
    note(described(cluster))
    _, begun = cycles(cluster, CONFIG, 1, NOW)  # releasing pods have left: from now on only decisions change anything
    scene(begun, CONFIG, NOW + 1, most=60)


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_no_gang_waits_while_idle_room_fits_it(cluster: Cluster) -> None:
    """In a settled cluster no gang of one shape waits if its queue allows it and idle, unlocked room takes it whole."""
    now = NOW
    for _ in range(60):
        plan = decided(cluster, now)
        before, cluster = cluster, carry_out(cluster, plan, now)
        now += 1
        if before.tasks == cluster.tasks and not plan.moves:
            break
    else:
        return
    assert () == plan.nominate, "no pod is leaving, but a pod waits for releasing room"
    locked = {lock.node for lock in plan.locks}
    snapshot = Snapshot(cluster)
    free = {
        name: snapshot.axes.amounts(snapshot.nodes.allocatable[i] - snapshot.used[i])
        for i, name in enumerate(snapshot.nodes.names)
        if name not in locked
    }
    for job in cluster.jobs:
        lacking = waits_whole(job, [t for t in cluster.tasks if t.job == job.key])
        if lacking:
            room = sum(how_many(amounts, lacking[0]) for amounts in free.values())
            (reasons,) = [w.reasons for w in plan.waiting if w.job == job.key]
            assert room < len(lacking) or any(r.queue for r in reasons), f"{job.key} fits: {reasons}"


def waits_whole(job: Job, members: list[Task]) -> list[Task]:
    """The minimum of a gang of one shape that has nothing; an empty list for other gangs."""
    if {t.status for t in members} != {Status.PENDING} or len({t.shape for t in members}) > 1:
        return []
    first = members[: least(job, members)]
    return [] if short(job, first, (Status.PENDING,)) else first


def how_many(room: dict[str, int], task: Task) -> int:
    return max(min(room.get(name, 0) // amount for name, amount in task.shape.requests), 0)


@settings(max_examples=50, deadline=None)
@given(clusters(gangs=6))
def test_reasons_that_alike_jobs_share_are_those_of_each_job(cluster: Cluster) -> None:
    """Every gang has a twin, some in another queue. All jobs are asked in one session, and each one in its own."""
    twins = [
        replace(job, key=f"{job.key}-twin", created=3.0, queue=QUEUES[i % 2]) for i, job in enumerate(cluster.jobs)
    ]
    theirs = [
        replace(t, key=f"{t.key}-twin", job=f"{t.job}-twin", status=Status.PENDING, node="") for t in cluster.tasks
    ]
    doubled = replace(cluster, jobs=(*cluster.jobs, *twins), tasks=(*cluster.tasks, *theirs))
    note(described(doubled))
    together = acted(doubled)
    for job in [job for job in together.active() if together.state.job_pending[job.index]]:
        assert why_waiting(acted(doubled), job) == why_waiting(together, job)


def acted(cluster: Cluster) -> Session:
    """A session after all actions."""
    session = Session(Snapshot(cluster), CONFIG, NOW)
    session.open()
    for option in CONFIG.actions:
        option.build().execute(session)
    return session
