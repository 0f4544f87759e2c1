"""reservation: lock nodes, one after another, for the job that has waited longest.

It elects a target: the highest priority, then the longest wait, among jobs that locks can help. At each interval it
locks the node with most idle room, until the target's minimum fits on the locked nodes without the pods that run there.
Locks on nodes that cannot help the target any more are released.

Jobs of the same or a lower priority may not use locked nodes, unless they promise to end before the target can start
(EASY backfill): their end is compared with the earliest start of the target, computed from the promises of running jobs
(`maar.plugins.support.promises`). While a job that has broken its promise runs, no job of its queue is believed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from maar.model.durations import parse_duration
from maar.model.jobs import Job
from maar.model.reasons import LOCKED
from maar.model.resources import Ints, Mask
from maar.model.tasks import Status
from maar.plugins.support.promises import breakers, earliest_start, fits, promised_runtime
from maar.session.eviction.making_room import needs_of
from maar.session.hooks import Rejection
from maar.session.placement import Group, domains_of
from maar.session.register import Register
from maar.session.resizing.waiting_gangs import could_pay
from maar.session.session import Session

NAME = "reservation"
CHECKED_BY = frozenset({"elect", "reserve"})
"""The actions that check a standing election."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How fast nodes are locked, and how long an election lasts at most (`0`: until the job is placed or gone)."""

    interval: str | float = msgspec.field(name="reservation.lock-interval", default="1s")
    timeout: str | float = msgspec.field(name="reservation.timeout", default="0s")

    def __post_init__(self) -> None:
        """Reject values that are not durations."""
        self.seconds()

    def seconds(self) -> tuple[float, float]:
        """Interval and timeout in seconds."""
        return parse_duration(self.interval), parse_duration(self.timeout)


class Reservation:
    def __init__(self, arguments: Arguments) -> None:
        self._interval, self._timeout = arguments.seconds()
        self._deadline: tuple[str, float | None] | None = None

    def open(self, session: Session, on: Register) -> None:
        """Register the hooks, and end an election that is too old."""
        self._session = session
        on.target_job(self._choose)
        on.reserved_nodes(self._lock)
        on.job_nodes(self._closed)
        self._forget_turns()
        if not CHECKED_BY.intersection(action.name for action in session.config.actions):
            session.clear_target()  # the configuration has changed, and no action would check the election again
        if session.target_is_foreign:
            return
        if session.elect is not None and session.elect.since > session.now:
            session.date_target()  # the clock was set back
        if session.elect is not None and self._timeout > 0:
            ends = session.elect.since + self._timeout
            if session.now >= ends:
                session.expire_target()
            else:
                session.wake(ends)

    # -- the election

    def _choose(self, jobs: Sequence[Job]) -> Job | None:
        waiting = [job for job in jobs if job.key not in self._session.expired]
        waiting.sort(key=lambda job: (-job.priority, self._session.waiting_since(job), job.key))
        return next((job for job in waiting if self._helps(job)), None)

    def _forget_turns(self) -> None:
        """A job that lost its election may be elected again after the same time."""
        session = self._session
        for job, expired in list(session.expired.items()):
            if expired.at <= session.now < expired.at + self._timeout:
                session.wake(expired.at + self._timeout)
            else:
                session.forget_expired(job)

    def _helps(self, job: Job) -> bool:
        """Whether empty nodes would let the job start: its queue allows it, and some domain is large enough.

        A job that must be near a pod that does not run yet is excluded: the locks would keep that pod away too.
        """
        needs = needs_of(self._session, job)
        if not could_pay(self._session, job, needs):
            return False
        if not all(has_company(self._session, group.shape) for group, _ in needs):
            return False
        return any(self._fits_emptied(job, needs, rows) for rows in self._domains(job))

    # -- the locks

    def _domains(self, job: Job) -> list[Mask]:
        usable = np.ones(len(self._session.snapshot.nodes), dtype=np.bool_)
        for _, rejection in self._session.closed_to(job):
            if rejection.code != LOCKED:
                usable &= ~rejection.nodes
        return [usable if domain is None else domain & usable for domain in domains_of(self._session, job)]

    def _fits_emptied(self, job: Job, needs: list[tuple[Group, int]], rows: Mask) -> bool:
        """Whether the job's minimum fits on these nodes without the pods that run there (except resident pods)."""
        nodes = self._session.snapshot.nodes
        free = nodes.allocatable - resident_use(self._session)
        if not needs:
            wanted, rows = self._session.snapshot.axes.row(job.min_resources or {}), rows & ~nodes.unschedulable
            return all(int(total) >= want for total, want in zip(free[rows].sum(axis=0), wanted, strict=True))
        return fits(self._session, needs, free, rows)

    def _lock(self, job: Job) -> None:
        """Lock one more node, if one is needed and the interval has passed; release locks that do not help."""
        session, needs = self._session, needs_of(self._session, job)
        nodes = session.snapshot.nodes
        useful = self._useful(job, needs) & self._domain(job, needs)
        for name in [name for name in session.locks if not useful[nodes.row[name]]]:
            session.unlock(name)
        locked = self._locked()
        if self._fits_emptied(job, needs, locked):
            return
        # Without times in the future: the clock was set back.
        last = max((k.since for k in session.locks.values() if k.since <= session.now), default=-np.inf)
        if session.now < last + self._interval:
            session.wake(last + self._interval)
            return
        useful &= ~locked
        scope = session.snapshot.scope
        for kept in () if scope is None else scope.kept:
            useful &= ~kept.nodes  # a job that fits now is about to get them
        if useful.any():
            session.lock(nodes.names[self._most_idle(job, needs, useful)], job)
            session.wake(session.now + self._interval)

    def _locked(self) -> Mask:
        nodes = self._session.snapshot.nodes
        locked = np.zeros(len(nodes), dtype=np.bool_)
        locked[[nodes.row[name] for name in self._session.locks]] = True
        return locked

    def _domain(self, job: Job, needs: list[tuple[Group, int]]) -> Mask:
        """The nodes among which the job can start: a domain that is large enough, with all locks if possible."""
        locked, first = self._locked(), None
        for domain in self._domains(job):
            whole = domain[locked].all()
            if (whole or first is None) and self._fits_emptied(job, needs, domain):
                if whole:
                    return domain
                first = domain
        return np.zeros_like(locked) if first is None else first

    def _useful(self, job: Job, needs: list[tuple[Group, int]]) -> Mask:
        """The nodes that can take a task of the job when they are empty."""
        session = self._session
        free = session.snapshot.nodes.allocatable - resident_use(session)
        if not needs:
            return np.asarray((free > 0).any(axis=1) & ~session.snapshot.nodes.unschedulable)
        useful = np.zeros(len(free), dtype=np.bool_)
        for group, _ in needs:
            request = session.snapshot.shapes.requests[group.shape]
            useful |= (free >= request).all(axis=1) & session.view(group.shape).open
        return useful

    def _most_idle(self, job: Job, needs: list[tuple[Group, int]], useful: Mask) -> int:
        """The node with most idle room for the first tasks of the job."""
        session = self._session
        table = session.snapshot.nodes.allocatable
        idle = table - session.state.used
        if needs:
            request = session.snapshot.shapes.requests[needs[0][0].shape]
        else:
            request = np.array(session.snapshot.axes.row(job.min_resources or {}), dtype=np.int64)
        dims = np.flatnonzero(request)
        room = (np.maximum(idle[:, dims], 0) / request[dims]).min(axis=1) if len(dims) else np.zeros(len(table))
        return int(np.argmax(np.where(useful, room, -1.0)))

    # -- other jobs

    def _closed(self, job: Job) -> Rejection | None:
        session = self._session
        if session.elect is None or not session.locks or job.key == session.elect.job:
            return None
        if self._outranks_target(job) or self._ends_in_time(job):
            return None
        target = session.elect.job
        closed = session.memo.current(
            NAME, "closed", lambda: Rejection(LOCKED, f"locked for `{target}`", self._locked())
        )
        promised = session.promised(job)
        if not len(promised):
            return closed
        mask = closed.nodes.copy()
        mask[session.state.node[promised]] = False  # promised before the lock
        return Rejection(closed.code, closed.words, mask)

    def _outranks_target(self, job: Job) -> bool:
        """Whether locks do not hold against a job, because its priority is higher than that of the target."""
        target = self._session.target
        return target is not None and job.priority > target.priority

    def _ends_in_time(self, job: Job) -> bool:
        promise = promised_runtime(self._session, job)
        if promise is None or self._session.elect is None or job.queue in self._breakers():
            return False
        if self._deadline is None or self._deadline[0] != self._session.elect.job:
            self._deadline = (self._session.elect.job, earliest_start(self._session, self._session.elect.job))
        starts = self._deadline[1]
        return starts is not None and self._session.now + promise <= starts

    def _breakers(self) -> frozenset[str]:
        """Queues with a running job that has broken its promise."""
        session = self._session
        target = "" if session.elect is None else session.elect.job
        return session.memo.fixed(NAME, ("breakers", target), lambda: breakers(session, target))


def resident_use(session: Session) -> Ints:
    """Resources of DaemonSet and static pods on each node, which are never freed."""
    snapshot = session.snapshot
    use = np.zeros_like(session.state.used)
    stays = np.flatnonzero(snapshot.tasks.resident & (session.state.status == Status.BOUND) & (session.state.node >= 0))
    if len(stays):
        np.add.at(use, session.state.node[stays], snapshot.shapes.requests[snapshot.tasks.shape[stays]])
    return use


def has_company(session: Session, shape: int) -> bool:
    """Whether the pods that a shape must be near are running, or the shape itself may be the first of them."""
    shapes, tasks = session.snapshot.shapes.shapes, session.snapshot.tasks
    wanted = {term.pods for term in shapes[shape].affinity}
    if wanted <= set(shapes[shape].matches):
        return True
    meant = [number for number, other in enumerate(shapes) if wanted <= set(other.matches)]
    there = session.state.status == Status.BOUND
    return bool((there & np.isin(tasks.shape, meant)).any())
