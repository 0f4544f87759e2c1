"""Open the gates of Volcano's queue admission (`scheduling.volcano.sh/queue-allocation-gate`).

A webhook adds the gate to pods that ask for it, so that autoscalers do not see pods that wait for quota. The scheduler
removes it when the queue admits the pods: after admission by `enqueue` to declared needs, otherwise when the queue has
quota for the missing minimum of the gang. Pods above the minimum need quota one by one. What earlier gates let through
and is not placed yet counts too, in the order of service. Gated pods are placed only in later cycles, without the gate.
"""

from __future__ import annotations

from maar.model.jobs import Job
from maar.model.minimum import Gap, lack_of, spread
from maar.model.reasons import Reason
from maar.model.resources import Ints
from maar.model.tasks import Gate, Status
from maar.session.gangs import missing
from maar.session.placement import Group, grouped
from maar.session.session import Session
from maar.session.turns import Turns

HERE = (Status.PENDING, Status.NOMINATED, Status.BOUND, Status.SUCCEEDED, Status.BLOCKED)
"""The states of pods that count for the minimum of a gang."""


def open_gates(session: Session) -> None:
    """Remove the gates of all pods that their queues admit now."""
    table = session.snapshot.tasks
    if not (table.gate == Gate.CLOSED).any():
        return
    shown = (table.gate == Gate.CLOSED) | (table.gate == Gate.OPENED) & (session.state.status == Status.PENDING)
    rows = set(table.job[shown].tolist())
    jobs = [job for job in session.active(resting=True) if job.index in rows and not session.is_pending(job)]
    desk = _Desk(session)
    with session.statement():  # not committed: charged to see what the queues may still have
        decided = [job for job in jobs if _is_decided(session, job)]
        for job in sorted(decided, key=session.hooks.job_key):
            desk.serve(job, decided=True)
        turns = Turns(session, (job for job in jobs if not _is_decided(session, job)))
        while (turn := turns.next()) is not None:
            desk.serve(turn, decided=False)
    for job in jobs:
        desk.close(job)


def _is_decided(session: Session, job: Job) -> bool:
    """Whether the queue has decided on the minimum already: by admission, or as the size of an elastic job."""
    admitted = job.declared and bool(job.min_resources) and session.config.has_action("enqueue")
    return admitted or job.is_elastic


class _Desk:
    """Collects whose gates open, and why others stay."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: dict[int, list[Ints]] = {}
        self._why: dict[int, tuple[Reason, ...]] = {}

    def close(self, job: Job) -> None:
        """Record the result for a job that had its turn, or whose queue had none."""
        if job.index not in self._open:
            overused = self._session.hooks.is_overused(self._session.queue_of(job))
            self._session.keep_gated(job, *([overused] if overused is not None else []))
            return
        self._session.keep_gated(job, *self._why.get(job.index, ()))
        for tasks in self._open[job.index]:
            self._session.ungate(job, tasks)

    def serve(self, job: Job, decided: bool) -> None:
        """Let the tasks of a job through, as far as its queue allows."""
        session, found = self._session, self._open.setdefault(job.index, [])
        for group in self._groups(job, Gate.OPENED, Status.PENDING):
            session.state.charge(job.index, group.shape, session.hooks.allowed(job, group.shape, len(group.tasks)))
        tasks = session.snapshot.tasks.tasks
        here = [tasks[task] for task in session.tasks_of(job, *HERE).tolist()]
        if session.hooks.gang is not None and lack_of(job, here).total:
            return  # more pods of the minimum have to be created first
        groups = self._groups(job, Gate.CLOSED, Status.BLOCKED)
        needed = self._needed(job, groups)
        mark = session.state.mark()
        for group, count in zip(groups, needed, strict=True):
            if not self._take(job, group, count, decided):
                session.state.rollback(mark)
                return
        for group, count in zip(groups, needed, strict=True):
            rest = len(group.tasks) - count
            more = session.hooks.allowed(job, group.shape, rest) if rest else 0
            session.state.charge(job.index, group.shape, more)
            if more < rest:
                self._why[job.index] = tuple(session.hooks.refusals(job, group.shape, rest - more))
            found.append(group.tasks[: count + more])

    def _take(self, job: Job, group: Group, count: int, decided: bool) -> bool:
        """Charge tasks of the minimum to the queue; false if it may not have all of them."""
        hooks = self._session.hooks
        if count and not decided and hooks.allowed(job, group.shape, count) < count:
            self._why[job.index] = tuple(hooks.refusals(job, group.shape, count))
            return False
        self._session.state.charge(job.index, group.shape, count)
        return True

    def _groups(self, job: Job, gate: Gate, status: Status) -> list[Group]:
        tasks = self._session.tasks_of(job, status)
        return grouped(self._session, job, tasks[self._session.snapshot.tasks.gate[tasks] == gate])

    def _needed(self, job: Job, groups: list[Group]) -> list[int]:
        """How many gated tasks of each group the missing minimum needs, beside the tasks that wait without a gate."""
        session = self._session
        lack = missing(session, job)
        gap = Gap(lack.total, lack.roles)
        for role in session.snapshot.jobs.task_role[session.tasks_of(job, Status.PENDING)].tolist():
            gap.fill(role, 1)
        return spread(gap, [group.role for group in groups], [len(group.tasks) for group in groups])
