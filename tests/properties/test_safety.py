"""Safety: what no decision may do, on any cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
from hypothesis import given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.session_contents import contents
from tests.support.strategies import clusters, described, elastic_clusters, short, shuffled

from maar.config.file import default_config
from maar.decide import decide
from maar.model.jobs import Job
from maar.model.outcome import carry_out
from maar.model.plan import Cause, Evict, Plan
from maar.model.reasons import Reason
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status, Task
from maar.registry import catalog
from maar.session.release import release
from maar.session.resizing.restoring import restore_room
from maar.session.session import Decision, Session
from maar.session.view import NodesView
from maar.testing.scenario import check_invariants

CONFIG = default_config(catalog())
NOW = 10.0

READY = (Status.BOUND, Status.SUCCEEDED)


def decided(cluster: Cluster, now: float = NOW) -> Plan:
    """The plan; the notes of a failing example show its input."""
    plan = decide(Snapshot(cluster), CONFIG, now)
    note(described(cluster))
    note(f"{now}: bind {plan.bind}\n  nominate {plan.nominate}\n  evict {plan.evict}\n  locks {plan.locks}")
    return plan


@settings(max_examples=200, deadline=None)
@given(clusters())
def test_capacity_is_never_exceeded(cluster: Cluster) -> None:
    """Neither by bound pods nor, after releasing pods are gone, by promised pods."""
    plan = decided(cluster)
    after = carry_out(cluster, plan, NOW)
    check_invariants(cluster, plan, after)
    snapshot = Snapshot(after)
    assert (snapshot.used <= snapshot.nodes.allocatable).all()
    # Leaving pods still hold their room when the plan is carried out: bound pods must fit beside them.
    leaving = {e.task for e in plan.evict}
    still = [
        replace(t, status=Status.RELEASING) for t in cluster.tasks if t.key in leaving or t.status is Status.RELEASING
    ]
    beside = Snapshot(replace(after, tasks=(*after.tasks, *still), jobs=cluster.jobs))
    assert (beside.used <= beside.nodes.allocatable).all()
    assert (snapshot.used + snapshot.nominated <= snapshot.nodes.allocatable).all()


@settings(max_examples=200, deadline=None)
@given(clusters())
def test_gangs_start_and_leave_whole(cluster: Cluster) -> None:
    plan = decided(cluster)
    after = carry_out(cluster, plan, NOW)
    was, now = members(cluster), members(after)
    touched = jobs_of(cluster, [b.task for b in plan.bind] + [e.task for e in plan.evict])
    for job in cluster.jobs:
        if job.key in touched and not runs_in_part(job, was[job.key]):
            assert not runs_in_part(job, now[job.key]), f"{job.key} runs in part"


@settings(max_examples=200, deadline=None)
@given(clusters())
def test_a_gang_that_ran_in_part_never_loses_only_some(cluster: Cluster) -> None:
    """It is completed, left as it is, or evicted whole."""
    plan = decided(cluster)
    gone = Counter(jobs_of(cluster, [e.task for e in plan.evict], once=False))
    was = members(cluster)
    for job in cluster.jobs:
        if runs_in_part(job, was[job.key]) and gone[job.key]:
            running = [t for t in was[job.key] if t.status is Status.BOUND]
            assert len(running) == gone[job.key]


@settings(max_examples=200, deadline=None)
@given(clusters())
def test_a_gang_is_promised_all_that_it_lacks_or_nothing(cluster: Cluster) -> None:
    """New promises complete the minimum together with what the gang has."""
    plan = decided(cluster)
    after = members(carry_out(cluster, plan, NOW))
    before = {t.key for t in cluster.tasks if t.status is Status.NOMINATED}
    for key in jobs_of(cluster, [n.task for n in plan.nominate if n.task not in before]):
        job = next(j for j in cluster.jobs if j.key == key)
        assert not short(job, after[key], (*READY, Status.NOMINATED)), f"{key} is promised less than its minimum"


@settings(max_examples=200, deadline=None)
@given(clusters())
def test_protected_pods_are_never_evicted(cluster: Cluster) -> None:
    plan = decided(cluster)
    task = {t.key: t for t in cluster.tasks}
    victims = [task[e.task] for e in plan.evict]
    assert [] == [t.key for t in victims if not t.preemptable or t.critical or t.resident]
    assert [] == [t.key for t in victims if t.status is not Status.BOUND]
    spent = Counter(b for t in victims for b in t.budgets)
    allowed = {b.key: max(b.allowed, 0) for b in cluster.budgets}
    assert {} == {key: n for key, n in spent.items() if n > allowed[key]}


@settings(max_examples=200, deadline=None)
@given(clusters())
def test_only_lower_priority_goes_inside_a_queue(cluster: Cluster) -> None:
    plan = decided(cluster)
    task, job = {t.key: t for t in cluster.tasks}, {j.key: j for j in cluster.jobs}
    for evict in taken(plan):
        victim, taker = job[task[evict.task].job], job[evict.beneficiary]
        assert taker.preempts
        if victim.key != taker.key and victim.queue == taker.queue:
            assert victim.priority < taker.priority


@settings(max_examples=200, deadline=None)
@given(clusters(), st.integers(0, 1000))
def test_the_order_of_the_input_does_not_matter(cluster: Cluster, seed: int) -> None:
    assert decided(cluster) == decided(shuffled(cluster, seed))


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_the_same_question_gets_the_same_answer(cluster: Cluster) -> None:
    """Also on the same snapshot: a decision does not change its input."""
    snapshot = Snapshot(cluster)
    first = decide(snapshot, CONFIG, NOW)
    assert first == decide(snapshot, CONFIG, NOW)
    assert first == decided(cluster)


def taken(plan: Plan) -> list[Evict]:
    """Evictions for another job; the release of an incomplete gang has no such job."""
    return [e for e in plan.evict if e.cause is not Cause.RELEASED]


@settings(max_examples=200, deadline=None)
@given(clusters())
def test_every_victim_is_needed(cluster: Cluster) -> None:
    """If one victim is spared, the others do not make enough room."""
    plan = decided(cluster)
    takers = {e.beneficiary for e in taken(plan)}
    mine = [t for t in cluster.tasks if t.job in takers]
    if len(takers) != 1 or len({t.shape for t in mine}) != 1 or len(taken(plan)) < len(plan.evict):
        return  # one eviction changes the needs of the next; two shapes are packed greedily
    gave_way = {w.job for w in plan.waiting if any(r.code == "GaveWay" for r in w.reasons)}
    for unit in units(cluster, plan):
        others = {e.task for e in plan.evict} - unit
        may_go = others | {t.key for t in cluster.tasks if t.job in gave_way and t.status is not Status.BOUND}
        pinned = [replace(t, preemptable=t.key in may_go) for t in cluster.tasks]
        again = decided(replace(cluster, tasks=tuple(pinned)))
        got = {n.task for n in again.nominate} | {b.task for b in again.bind}
        wanted = {n.task for n in plan.nominate} & {t.key for t in mine}
        assert not wanted <= got, f"evicted needlessly: {sorted(unit)}, {others} are enough for {takers}"


@settings(max_examples=200, deadline=None)
@given(clusters())
def test_every_victim_makes_room_that_is_used(cluster: Cluster) -> None:
    """A job that others are evicted for gets a promise of its whole minimum, and is bound when the victims are gone."""
    plan = decided(cluster)
    after = carry_out(cluster, plan, NOW)
    then = carry_out(after, decided(after, NOW + 1), NOW + 1)
    job, promised, bound = {j.key: j for j in cluster.jobs}, members(after), members(then)
    for taker in sorted({e.beneficiary for e in taken(plan)}):
        assert not short(job[taker], promised[taker], (*READY, Status.NOMINATED)), f"{taker} was promised too little"
        assert not short(job[taker], bound[taker], READY), f"{taker} did not start"
        for task in promised[taker]:
            if task.status is Status.NOMINATED:
                assert Status.BOUND is next(t.status for t in bound[taker] if t.key == task.key)


@settings(max_examples=100, deadline=None)
@given(clusters(), st.lists(st.integers(0, 10**6), max_size=30))
def test_rollback_restores_the_whole_session(cluster: Cluster, dice: list[int]) -> None:
    """Any verbs inside an uncommitted statement leave no change, including columns of plugins.

    Guards against writes that bypass the journal: `session.evictions` once kept rolled-back entries, and a comparison
    of arrays alone did not notice.
    """
    session = Session(Snapshot(cluster), CONFIG, NOW)
    session.open()
    kept = session.state.column(len(cluster.jobs))
    vars(session)["kept"] = kept
    session.state.listen(lambda job, shape, rows, n, sign: session.state.add(kept, job, sign * n.sum() * (shape + 1)))
    before = contents(session)
    with session.statement():
        half = len(dice) // 2
        do_anything(session, dice[:half])
        middle = contents(session)
        with session.statement():
            do_anything(session, dice[half:])
        assert middle == contents(session)
    assert before == contents(session)


@settings(max_examples=100, deadline=None)
@given(st.one_of(clusters(), elastic_clusters()))
def test_rollback_of_whole_actions_restores_the_whole_session(cluster: Cluster) -> None:
    """A cycle inside an uncommitted statement leaves no change: the journal records every write of an action."""
    session = Session(Snapshot(cluster), CONFIG, NOW)
    session.open()
    before = contents(session)
    with session.statement():
        restore_room(session)
        for option in CONFIG.actions:
            option.build().execute(session)
        release(session)
    assert before == contents(session)


@settings(max_examples=100, deadline=None)
@given(clusters(), st.lists(st.integers(0, 10**6), max_size=20))
def test_a_view_brought_up_to_date_equals_a_new_one(cluster: Cluster, dice: list[int]) -> None:
    """After any verbs, committed or undone."""
    session = Session(Snapshot(cluster), CONFIG, NOW)
    session.open()
    session.state.soften()
    shapes = range(len(session.snapshot.shapes))
    for shape in shapes:
        session.view(shape), session.view(shape, later=True)
    do_anything(session, dice[::2])
    with session.statement():
        do_anything(session, dice[1::2])
        for shape in shapes:
            session.view(shape)
    for shape in shapes:
        for later in (False, True):
            kept, new = session.view(shape, later), NodesView(session, shape, later)
            assert kept.fits.tolist() == new.fits.tolist()
            assert kept.score.tolist() == new.score.tolist()


# -- helpers


def do_anything(session: Session, dice: list[int]) -> None:
    """Verbs on tasks that allow them, useful or not."""
    state, tasks = session.state, session.snapshot.tasks
    gone: list[int] = []
    for throw in dice:
        if not len(tasks):
            return
        task = throw % len(tasks)
        job, shape = int(tasks.job[task]), int(tasks.shape[task])
        row = np.array([throw // 7 % len(session.snapshot.nodes)])
        remember_anything(session, session.job(job), throw // 11)
        match Status(state.status[task]):
            case Status.PENDING:
                verb = state.bind if throw % 2 else state.nominate
                verb(job, shape, np.array([task]), row, np.array([1]))
            case Status.NOMINATED:
                state.withdraw(task)
            case Status.BOUND:
                session.evict(task, session.job(job), "by chance", Cause.PREEMPTED)
                gone.append(task)
            case Status.RELEASING if task in gone:
                session.spare(task)
                gone.remove(task)


def remember_anything(session: Session, job: Job, throw: int) -> None:
    """Store something that the session keeps outside its columns."""
    node, why = session.snapshot.nodes.names[0], Reason("test", "Chance", "by chance")
    verbs: list[Callable[[], None]] = [
        lambda: session.note(job, why),
        lambda: session.clear_notes(job),
        lambda: session.admit(job),
        lambda: session.pass_over(job.queue, why),
        lambda: session.size(job, Decision(throw, throw, "by chance")),
        lambda: session.set_target(job),
        lambda: session.lock(node, job),
        session.expire_target,
        lambda: session.state.reserve(job.index, 0, np.array([0]), np.array([1])),
        lambda: session.state.let_go(job.index),
    ]
    verbs[throw % len(verbs)]()


def members(cluster: Cluster) -> Mapping[str, list[Task]]:
    found: dict[str, list[Task]] = {job.key: [] for job in cluster.jobs}
    for task in cluster.tasks:
        found[task.job].append(task)
    return found


def runs_in_part(job: Job, tasks: list[Task]) -> bool:
    return any(t.status in READY for t in tasks) and short(job, tasks, READY)


def jobs_of(cluster: Cluster, tasks: list[str], once: bool = True) -> list[str]:
    job = {t.key: t.job for t in cluster.tasks}
    found = [job[t] for t in tasks]
    return sorted(set(found)) if once else found


def units(cluster: Cluster, plan: Plan) -> list[set[str]]:
    """The evicted tasks by unit: whole gangs, or surplus tasks one by one."""
    gone = {e.task for e in plan.evict}
    found: list[set[str]] = []
    for tasks in members(cluster).values():
        running = {t.key for t in tasks if t.status is Status.BOUND}
        if running and running <= gone:
            found.append(running)
        else:
            found.extend({key} for key in sorted(running & gone))
    return found
