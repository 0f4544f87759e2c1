"""reservation: lock nodes, one after another, for the job that has waited longest.

It elects a target: the highest priority, then the longest wait, among jobs that locks can help and that have waited for
`reservation.after`. A job that needs more than the part `reservation.most` of its nodes waits longer for its turn, in
proportion. Locks are kept on the nodes that the target will use when it is expected to start
(`maar.plugins.support.expected_start`); one more node is locked at each interval, and other nodes are unlocked.

Jobs of the same or a lower priority may not use locked nodes, unless they end before that (EASY backfill): they promise
it, or nine in ten of similar jobs would. While a job that has broken its promise runs, no promise of its queue is
believed (`maar.plugins.support.promises`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from msgspec.structs import replace

from maar.model.codes import LOCKED
from maar.model.durations import Duration, parse_duration
from maar.model.fitting import Mode, fraction
from maar.model.jobs import Job
from maar.model.reasons import Refusal
from maar.model.resources import Ints, Mask
from maar.model.tasks import Status
from maar.plugins.support.expected_start import Expected, RoomThen, expected_start
from maar.plugins.support.promises import breakers, fits, promised_runtime
from maar.session.eviction.making_room import needs_of
from maar.session.placement import Group, both, domains_of
from maar.session.refused_nodes import unlocked
from maar.session.register import Register
from maar.session.resizing.waiting_gangs import could_pay
from maar.session.session import Session

NAME = "reservation"
CHECKED_BY = frozenset({"elect", "reserve"})
"""The actions that check a standing election."""
DOUBLED = 20
"""The time of an election is doubled at most this often. Tuned by hand."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How fast nodes are locked, and what an election may cost other jobs."""

    interval: Duration = msgspec.field(name="reservation.lock-interval", default="1s")
    timeout: Duration = msgspec.field(name="reservation.timeout", default="0s")
    """How long an election lasts at most (`0`: until the job is placed or gone). The next one of the same job lasts
    twice as long, so work of any length ends in time for one of them."""
    after: Duration = msgspec.field(name="reservation.after", default="0s")
    """How long a job waits before it can be elected."""
    most: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = msgspec.field(name="reservation.most", default=1.0)
    """The part of the nodes that are locked at most, unless the job needs more of them even when they are empty."""

    def seconds(self) -> tuple[float, float, float]:
        """Interval, timeout and wait in seconds."""
        return parse_duration(self.interval), parse_duration(self.timeout), parse_duration(self.after)

    def notes(self) -> list[str]:
        if not parse_duration(self.after) and self.most == 1.0:
            return []
        return [
            f"`reservation`: a job is elected after a wait of {self.after}; one that needs more than {self.most:.0%} "
            f"of its nodes waits longer for it, in proportion; no more nodes than that, or than it needs, are locked"
        ]


class Reservation:
    def __init__(self, arguments: Arguments) -> None:
        self._interval, self._timeout, self._after = arguments.seconds()
        self._most = arguments.most
        self._expected: dict[str, Expected] = {}
        """Where and when the elected job starts, by job: computed once in a session, as it was then."""

    def open(self, session: Session, on: Register) -> None:
        """Register the hooks, and end an election that is too old."""
        self._session = session
        on.target_job(self._choose)
        on.lock_nodes(self._lock)
        on.job_nodes(self._closed)
        self._forget_turns()
        if not CHECKED_BY.intersection(action.name for action in session.config.actions):
            session.clear_target()  # the configuration has changed, and no action would check the election again
        if session.target_is_foreign:
            return
        if session.elect is not None and session.elect.since > session.now:
            session.date_target()  # the clock was set back
        if session.elect is not None and self._timeout > 0:
            ends = session.elect.since + self._timeout * 2.0 ** min(session.times_too_short(session.elect.job), DOUBLED)
            if session.now >= ends:
                session.expire_target(too_short=True)
            else:
                session.wake(ends)

    # -- the election

    def _choose(self, jobs: Sequence[Job]) -> Job | None:
        waiting = [job for job in jobs if not self._lets_others(job.key)]
        waiting.sort(key=lambda job: (-job.priority, job.waits_since, job.key))
        return next((job for job in waiting if self._may_be_elected(job)), None)

    def _may_be_elected(self, job: Job) -> bool:
        """Whether locks help a job, and it has waited long enough; if not, the session wakes when it has."""
        session = self._session
        if (session.elect is not None and session.elect.job == job.key) or not self._after:
            return self._helps(job)
        due = job.waits_since + self._after
        if session.now >= due:
            if not self._helps(job):
                return False
            if session.now < job.waits_since + self._after / self._most:  # after that, also a job that needs all nodes
                due = job.waits_since + self._after * max(self._part(job) / self._most, 1.0)
        session.wake(due)
        return session.now >= due

    def _part(self, job: Job) -> float:
        """The part of what the nodes that a job may use have, that its minimum takes: of its scarcest resource."""
        session, needs = self._session, needs_of(self._session, job)
        asked = sum(count * session.snapshot.shapes.requests[group.shape] for group, count in needs)
        wanted = np.asarray(asked if needs else session.snapshot.axes.row(job.min_resources or {}))
        has = np.maximum(session.capacity.free(Mode.EMPTY)[self._useful(job, needs)].sum(axis=0), 1)
        return float((wanted / has).max())

    def _lets_others(self, job: str) -> bool:
        """Whether a job lost its election, and now others have their turn."""
        lost = self._session.lost.get(job)
        return lost is not None and lost.at <= self._session.now < lost.at + self._timeout

    def _forget_turns(self) -> None:
        """Forget the lost elections of jobs that wait no more; wake when another job may be elected again."""
        session = self._session
        jobs = session.snapshot.jobs
        waiting = {jobs.jobs[row].key for row in jobs.active}
        for job, lost in session.lost.items():
            if job not in waiting:
                session.lost.forget(job)
            elif self._lets_others(job):
                session.wake(lost.at + self._timeout)

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
        session, every = self._session, np.ones(len(self._session.snapshot.nodes), dtype=np.bool_)
        usable = both(every, unlocked(session, job))
        return [mask for domain in domains_of(session, job) if (mask := both(usable, domain)) is not None]

    def _fits_emptied(self, job: Job, needs: list[tuple[Group, int]], rows: Mask) -> bool:
        """Whether the job's minimum fits on these nodes without the pods that run there (except resident pods)."""
        nodes, free = self._session.snapshot.nodes, self._emptied()
        if not needs:
            wanted, rows = self._session.snapshot.axes.row(job.min_resources or {}), rows & ~nodes.unschedulable
            return all(int(total) >= want for total, want in zip(free[rows].sum(axis=0), wanted, strict=True))
        capacity = self._session.capacity
        return fits(self._session, needs, free, lambda shape: capacity.beside(shape, Mode.EMPTY), rows)

    def _emptied(self) -> Ints:
        """The free amounts of nodes without the pods that run there (except resident pods)."""

        def ask() -> Ints:
            capacity = self._session.capacity
            return capacity.free(Mode.EMPTY) - capacity.of(residents(self._session))

        return self._session.memo.current(NAME, "emptied", ask)

    def _lock(self, job: Job) -> None:
        """Lock one more node, if one is needed and the interval has passed; release locks that do not help."""
        session, nodes = self._session, self._session.snapshot.nodes
        wanted = self._expect(job).nodes
        for name in [name for name in session.locks if not wanted[nodes.row[name]]]:
            session.unlock(name)
        wanted = wanted & ~self._locked()
        scope = session.snapshot.scope
        for kept in () if scope is None else scope.kept:
            wanted &= ~kept.nodes  # a job that fits now is about to get them
        if not wanted.any():
            return
        # Without times in the future: the clock was set back.
        last = max((k.since for k in session.locks.values() if k.since <= session.now), default=-np.inf)
        if session.now < last + self._interval:
            session.wake(last + self._interval)
            return
        session.lock(nodes.names[self._most_idle(job, wanted)], job)
        session.wake(session.now + self._interval)

    def _expect(self, job: Job) -> Expected:
        """When the elected job is expected to start, and on which nodes."""
        if job.key not in self._expected:
            self._expected[job.key] = self._search(job)
        return self._expected[job.key]

    def _search(self, job: Job) -> Expected:
        """In the domain in which it starts first; in the one with all locks, if it is large enough."""
        session, needs, locked = self._session, needs_of(self._session, job), self._locked()
        useful = self._useful(job, needs)
        domains = [d & useful for d in self._domains(job)]
        if len(domains) > 1:
            domains = [d for d in domains if self._fits_emptied(job, needs, d)]
        domains = [d for d in domains if locked.any() and d[locked].all()][:1] or domains
        if not domains or not needs:
            return Expected(None, self._for_group(job, domains[0]) if domains else np.zeros_like(locked))
        capacity = session.capacity
        free = self._emptied()
        empty = RoomThen(free, lambda shape: capacity.beside(shape, Mode.EMPTY))
        found = [expected_start(session, needs, empty, domain, locked, self._most) for domain in domains]
        return min(found, key=lambda one: np.inf if one.at is None else one.at)

    def _for_group(self, job: Job, rows: Mask) -> Mask:
        """The nodes for a group without pods: locked ones, and then the idlest, until its total fits."""
        locked, chosen = self._locked(), np.zeros_like(rows)
        idle = fraction(self._session.capacity.free(Mode.IDLE), self._request(job))
        for row in np.lexsort((np.arange(len(rows)), -idle, ~locked)).tolist():
            if rows[row] and not self._fits_emptied(job, [], chosen):
                chosen[row] = True
        return chosen

    def _locked(self) -> Mask:
        nodes = self._session.snapshot.nodes
        locked = np.zeros(len(nodes), dtype=np.bool_)
        locked[[nodes.row[name] for name in self._session.locks]] = True
        return locked

    def _useful(self, job: Job, needs: list[tuple[Group, int]]) -> Mask:
        """The nodes that can take a task of the job when they are empty."""
        session, stay = self._session, residents(self._session)
        if not needs:
            return np.asarray((self._emptied() > 0).any(axis=1) & ~session.snapshot.nodes.unschedulable)
        shapes = {group.shape for group, _ in needs}
        takes = [(session.capacity.on_empty(shape, stay) > 0) & session.view(shape).open for shape in shapes]
        return np.asarray(np.logical_or.reduce(takes))

    def _most_idle(self, job: Job, useful: Mask) -> int:
        """The node with most idle room for the first tasks of the job."""
        room = fraction(self._session.capacity.free(Mode.IDLE), self._request(job))
        return int(np.argmax(np.where(useful, room, -1.0)))

    def _request(self, job: Job) -> Ints:
        """What a first task of the job asks for; of a group without pods, what all ask for."""
        session, needs = self._session, needs_of(self._session, job)
        if needs:
            return np.asarray(session.snapshot.shapes.requests[needs[0][0].shape])
        return np.array(session.snapshot.axes.row(job.min_resources or {}), dtype=np.int64)

    # -- other jobs

    def _closed(self, job: Job) -> Refusal | None:
        session = self._session
        if session.elect is None or not session.locks or job.key == session.elect.job:
            return None
        if self._outranks_target(job) or self._ends_in_time(job):
            return None
        target = session.elect.job
        closed = session.memo.current(
            NAME, "closed", lambda: Refusal(NAME, LOCKED, f"locked for `{target}`", self._locked())
        )
        nominated = session.nominated(job)
        if not len(nominated):
            return closed
        mask = closed.nodes.copy()
        mask[session.state.node[nominated]] = False  # nominated before the lock
        return replace(closed, nodes=mask)

    def _outranks_target(self, job: Job) -> bool:
        """Whether locks do not hold against a job, because its priority is higher than that of the target."""
        target = self._session.target
        return target is not None and job.priority > target.priority

    def _ends_in_time(self, job: Job) -> bool:
        """Whether a job ends before the target is expected to start: it promises so, or it is very likely."""
        session, target = self._session, self._session.target
        ends = [] if job.estimate is None else [job.estimate.most]
        promise = promised_runtime(session, job)
        if promise is not None and job.queue not in self._breakers():
            ends.append(promise)
        starts = None if target is None or not ends else self._expect(target).at
        return starts is not None and session.now + min(ends) <= starts

    def _breakers(self) -> frozenset[str]:
        """Queues with a running job that has broken its promise."""
        session = self._session
        target = "" if session.elect is None else session.elect.job
        return session.memo.fixed(NAME, ("breakers", target), lambda: breakers(session, target))


def residents(session: Session) -> Ints:
    """DaemonSet and static pods, whose room is never freed."""
    return np.flatnonzero(session.snapshot.tasks.resident & (session.state.status == Status.BOUND))


def has_company(session: Session, shape: int) -> bool:
    """Whether the pods that a shape must be near are running, or the shape itself may be the first of them."""
    shapes, tasks = session.snapshot.shapes.shapes, session.snapshot.tasks
    wanted = {term.pods for term in shapes[shape].affinity}
    if wanted <= set(shapes[shape].matches):
        return True
    meant = [number for number, other in enumerate(shapes) if wanted <= set(other.matches)]
    there = session.state.status == Status.BOUND
    return bool((there & np.isin(tasks.shape, meant)).any())
