"""Victims: which tasks may be evicted for a claim, in which units, and at what cost.

Tasks are evicted in *units*: one task above the minimum of its job, role and subgroup, a whole subgroup above the least
number of subgroups, or a whole gang at once. A gang is never reduced below its minimum, and a whole gang is evicted
only if every member may be. An elastic job shrinks instead: its workers from one index on leave together and are not
evicted. Plugins vote twice: once on each task alone, to find candidates, and again on a whole unit just before its
eviction, because earlier evictions count (budgets, queue shares). `cost` defines what victims cost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from maar.config.gangs import names_victims
from maar.model.jobs import Job
from maar.model.resources import CPU, Floats, Ints
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.session.eviction.cost import Cost, Rank, TieKey, Work
from maar.session.eviction.protection import beyond_share, limits_claims, unprotected
from maar.session.hooks import Claim
from maar.session.resizing.workers import is_ending, workers_of
from maar.session.session import Session
from maar.session.subgroups import READY, subgroups_of

if TYPE_CHECKING:
    from maar.session.eviction.openings import Openings

BOUND = int(Status.BOUND)
"""A plain integer: numpy compares enum members slowly."""

OWNER = "victims"
Places = dict[int, int]
"""Queue to its place among the queues that lose tasks: smaller first. Empty if all are equal."""
NO_PLACES: Places = {}


class Unit(NamedTuple):
    """Tasks that leave together."""

    job: int
    tasks: tuple[int, ...]
    whole: bool
    shrinks: bool = False
    """Workers of an elastic job, from an index on: the job shrinks, no pod is evicted."""
    subgroup: str = ""
    """The name of a subgroup that leaves whole."""

    @property
    def words(self) -> str:
        if self.subgroup:
            return f"surplus subgroup `{self.subgroup}`"
        return "gang" if self.whole else "workers" if self.shrinks else "surplus pod"


class Candidates:
    """The tasks that may be evicted for a claim, by job and node; shared by claims that differ only in the job."""

    def __init__(self, session: Session, claim: Claim, tasks: Ints) -> None:
        self._session = session
        self._claim = claim
        self.tasks = tasks
        snapshot = session.snapshot
        self.by_row: dict[int, list[int]] = {}
        self.by_job: dict[int, list[int]] = {}
        jobs = snapshot.tasks.job[tasks].tolist()
        rows = session.state.node[tasks].tolist()
        for task, job, row in zip(tasks.tolist(), jobs, rows, strict=True):
            self.by_row.setdefault(row, []).append(task)
            self.by_job.setdefault(job, []).append(task)
        queues = np.unique(snapshot.jobs.queue[jobs]).tolist() if claim.across_queues else []
        self._queues: tuple[int, ...] = tuple(queues) if len(queues) > 1 else ()
        """The queues that may lose tasks, if there is a choice."""
        self._is_limited = limits_claims(session)
        self._work: dict[int, Work] = dict(
            zip(tasks.tolist(), work_lost(session.snapshot, tasks, session.now), strict=True)
        )
        self._mixed: dict[int, tuple[int, ...]] | None = None
        self.openings: dict[tuple[int, bytes], Openings] = {}
        """The openings that the search cached, by shape and usable nodes."""
        self.begin(claim)

    def begin(self, claim: Claim) -> None:
        """Start a search: tasks dropped in an earlier search are candidates again."""
        self._claim = claim
        self._refused: set[int] = set()
        """Jobs whose whole gang may not be evicted after all."""
        self._dropped: set[int] = set()
        """Tasks that may not be evicted after all."""
        self._outvoted: set[int] = set()
        """Jobs whose whole gang a plugin refused just before its eviction."""

    def places(self) -> Places:
        """The order in which queues lose tasks now: it changes with each eviction."""
        if not self._queues:
            return NO_PLACES
        return self._session.memo.current(OWNER, (self._claim.job.index, self._queues), self._find_places)

    def _find_places(self) -> Places:
        queues, hooks = self._session.snapshot.queues.queues, self._session.hooks
        places = hooks.victim_places([queues[q] for q in self._queues], self._claim.job)
        return dict(zip(self._queues, places, strict=True))

    def place(self, units: Iterable[Unit], places: Places) -> tuple[int, ...]:
        """The place of the last of the queues that lose these units: `Cost.queue`."""
        if not places:
            return ()
        of_job = self._session.snapshot.jobs.queue
        return (max((places[int(of_job[unit.job])] for unit in units), default=0),)

    def mixed_rows(self) -> dict[int, tuple[int, ...]]:
        """The nodes where several queues may lose tasks, with these queues."""
        if self._mixed is None:
            table, of_job = self._session.snapshot.tasks, self._session.snapshot.jobs.queue
            queues = {row: tuple(sorted(set(of_job[table.job[t]].tolist()))) for row, t in self.by_row.items()}
            self._mixed = {row: there for row, there in queues.items() if len(there) > 1}
        return self._mixed

    def room(self) -> Ints:
        """The room that each node would gain without all candidates: an upper bound for proofs."""
        snapshot = self._session.snapshot
        extra = np.zeros_like(self._session.state.used)
        left = self.left()
        np.add.at(extra, self._session.state.node[left], snapshot.shapes.requests[snapshot.tasks.shape[left]])
        return extra

    def left(self) -> Ints:
        """The candidates that are still bound."""
        return np.asarray(self.tasks[self._session.state.status[self.tasks] == BOUND])

    def here(self, row: int) -> list[int]:
        """The candidates still bound on a node, cheapest single task first."""
        return self._in_order(t for t in self.bound(row) if t not in self._dropped)

    def bound(self, row: int) -> list[int]:
        """The candidates still bound on a node, also those that may not be evicted after all."""
        status = self._session.state.status
        return [t for t in self.by_row.get(row, ()) if status.item(t) == BOUND]

    def _in_order(self, tasks: Iterable[int]) -> list[int]:
        """Tasks that may leave without their gang, cheapest first."""
        places = self.places()
        if not places:
            return sorted(tasks, key=self._single_rank)
        jobs, queues = self._session.snapshot.tasks.job, self._session.snapshot.jobs.queue
        return sorted(tasks, key=lambda task: self._single_rank(task, (places[queues.item(jobs.item(task))],)))

    def _single_rank(self, task: int, queue: tuple[int, ...] = ()) -> Rank:
        """The sort key of a task that may leave without its gang."""
        snapshot = self._session.snapshot
        table, one = snapshot.tasks, snapshot.tasks.tasks[task]
        job = snapshot.jobs.jobs[table.job.item(task)]
        if job.is_elastic:
            return Rank(Cost(evicts=False, queue=queue, priority=job.priority), ((job.key, -one.index),), task)
        priority, work = table.priority.item(task), self._work[task]
        if not self._is_limited:
            return Rank(Cost(True, False, queue, job.priority, 0, priority, work), ((job.key, -one.index),), task)
        # A tenant gives her pods any priority: it orders them among themselves only.
        own = (job.key, priority), (job.key, -one.index)
        return Rank(Cost(True, False, queue, job.priority, 0, 0, work), own, task)

    def key(self, tasks: Iterable[int]) -> TieKey:
        """The tie-breaker for tasks of equal cost."""
        table = self._session.snapshot.tasks.tasks
        return tuple(sorted((table[t].job, -table[t].index) for t in tasks))

    def cost(self, units: Sequence[Unit], room: int | Fraction = 1) -> Cost:
        """The cost of evicting some units that make room for `room` tasks (or a fraction of one)."""
        gangs = sum(unit.whole or bool(unit.subgroup) for unit in units)
        return Cost(
            evicts=not all(unit.shrinks for unit in units),
            breaks=any(unit.whole for unit in units),
            queue=self.place(units, self.places()),
            priority=max((self._session.job(unit.job).priority for unit in units), default=0),
            gangs=gangs / room if room else math.inf,
            work=self.lost(units),
        )

    def work(self, tasks: tuple[int, ...]) -> Work:
        return Work(sum(self._work[t].gpu_seconds for t in tasks), sum(self._work[t].cpu_seconds for t in tasks))

    def lost(self, units: Iterable[Unit]) -> Work:
        """The work lost with some units. A job that shrinks saves its work: only evicted tasks count."""
        return self.work(tuple(t for unit in units if not unit.shrinks for t in unit.tasks))

    def surplus(self, job: int) -> int:
        """How many tasks of a job may be evicted one by one."""
        gang, state = self._session.hooks.gang, self._session.state
        ready = int(state.job_ready[job])
        return ready if gang is None else max(ready - gang.minimum(self._session.job(job)), 0)

    def role_surplus(self, job: int) -> dict[int, int]:
        """The same for each role with a minimum."""
        gang, state = self._session.hooks.gang, self._session.state
        minimums = {} if gang is None else gang.role_minimums(self._session.job(job))
        return {role: max(int(state.role_ready[role]) - n, 0) for role, n in minimums.items()}

    def singles(self, tasks: list[int]) -> list[Unit]:
        """The given tasks that may leave without their gang, in order: at most the surplus of each job and role."""
        jobs, roles = self._session.snapshot.tasks.job, self._session.snapshot.jobs.task_role
        left: dict[int, int] = {}
        left_of_role: dict[int, int] = {}
        divided: dict[int, Surplus] = {}
        chosen = []
        for task in tasks:
            job, role = jobs.item(task), roles.item(task)
            if job not in left:
                left[job] = self.surplus(job)
                left_of_role.update(self.role_surplus(job))
            of = self._session.job(job)
            if of.is_elastic:
                unit = self._from_index(job, task)
                if unit is not None and len(unit.tasks) <= min(left[job], left_of_role.get(role, left[job])):
                    chosen.append(unit)
            elif of.subgroups:
                if job not in divided:
                    divided[job] = Surplus(self._session, of, left[job], left_of_role)
                unit = divided[job].take(task)
                if unit is not None and (len(unit.tasks) == 1 or self._may_all_leave(unit)):
                    chosen.append(unit)
            elif left[job] > 0 and left_of_role.get(role, 1) > 0:
                left[job] -= 1
                if role in left_of_role:
                    left_of_role[role] -= 1
                chosen.append(Unit(job, (task,), False))
        if divided:
            chosen.sort(key=lambda unit: self._rank(unit).cost[:4] + (bool(unit.subgroup),))
        return chosen

    def _may_all_leave(self, unit: Unit) -> bool:
        return not self._dropped.intersection(unit.tasks) and set(unit.tasks) <= set(self.by_job.get(unit.job, ()))

    def _from_index(self, job: int, task: int) -> Unit | None:
        """A worker and all workers with a higher index, if each of them may leave."""
        session, table = self._session, self._session.snapshot.tasks.tasks
        workers = workers_of(session, session.job(job), Status.BOUND).tolist()
        going = [t for t in workers if table[t].index >= table[task].index]
        if task not in workers or self._dropped.intersection(going) or not set(going) <= set(self.by_job.get(job, ())):
            return None
        return Unit(job, tuple(going), False, shrinks=True)

    def whole(self, job: int) -> Unit | None:
        """A gang as one unit, if whole gangs may be evicted and every running member may be."""
        gang = self._session.hooks.gang
        if gang is None or job in self._refused or job == self._claim.job.index:
            return None
        if not (gang.whole_for_reclaim if self._claim.across_queues else gang.whole_for_preempt):
            return None
        running = self._session.tasks_of(self._session.job(job), Status.BOUND).tolist()
        if self._dropped.intersection(running) or not set(running) <= set(self.by_job.get(job, ())):
            self._refused.add(job)
        return None if job in self._refused or not running else Unit(job, tuple(running), True)

    def units(self) -> list[Unit]:
        """All current units, cheapest first."""
        found: list[Unit] = []
        for job, tasks in self.by_job.items():
            here = [t for t in tasks if self._session.state.status[t] == BOUND and t not in self._dropped]
            found.extend(self.singles(self._in_order(here)))
            whole = self.whole(job)
            if whole is not None:
                found.append(whole)
        return sorted(found, key=self._rank)

    def _rank(self, unit: Unit) -> Rank:
        """The sort key of a unit among all units: single tasks also by their own priority."""
        if unit.whole or unit.shrinks or unit.subgroup:
            return Rank(self.cost([unit]), self.key(unit.tasks), unit.tasks[0])
        return self._single_rank(unit.tasks[0], self.place((unit,), self.places()))

    def agreed(self, unit: Unit) -> bool:
        """Whether all plugins agree to evict exactly these tasks now, after the earlier evictions."""
        if self._session.hooks.victims(self._claim_for(unit), np.array(unit.tasks)).all():
            return True
        if unit.whole:
            self._refused.add(unit.job)
            self._outvoted.add(unit.job)
        else:
            self._dropped.update(unit.tasks)
        self.openings.clear()
        return False

    def _claim_for(self, unit: Unit) -> Claim:
        """The claim as plugins judge it for a unit."""
        limited = unit.whole and limits_claims(self._session)
        return msgspec.structs.replace(self._claim, whole=True) if limited else self._claim

    def too_large(self) -> Job | None:
        """A gang that the search could not evict because its queue would then have less than it deserves, or `None`."""
        session = self._session
        sharing = {o.name for tier in session.config.tiers for o in tier if names_victims(o.name, o.flags)}
        votes = [entry for entry in session.hooks.reclaimable if entry.plugin in sharing]
        for job in sorted((session.job(i) for i in self._outvoted), key=lambda job: job.key):
            tasks = session.tasks_of(job, Status.BOUND)
            claim = self._claim_for(Unit(job.index, tuple(tasks.tolist()), whole=True))
            if any(vote is not None and not vote.all() for vote in (entry.call(claim, tasks) for entry in votes)):
                return job
        return None


class Surplus:
    """What may leave a job with subgroups, task by task: the tasks given to `take` are assumed to leave."""

    def __init__(self, session: Session, job: Job, left: int, left_of_role: dict[int, int]) -> None:
        self._session = session
        self._job = job
        self._book = subgroups_of(session, job)
        self._left, self._left_of_role = left, dict(left_of_role)
        ready = self._book.count(READY)
        self._spare: list[int] = np.maximum(ready - self._book.size, 0).tolist()
        """How many tasks of each subgroup are above its size."""
        self._in_part: list[bool] = (ready < self._book.size).tolist()
        complete = self._book.complete(READY)
        self._least: list[int] = (complete - self._book.least).tolist()
        """How many subgroups of each policy are above the least number."""
        self._taken: dict[int, list[int]] = {}
        """Single tasks that leave, by subgroup."""
        self._gone: set[int] = set()
        """Subgroups that leave whole."""

    def take(self, task: int) -> Unit | None:
        """The unit with which a task leaves: itself or its subgroup; `None` if it may not leave, or leaves already."""
        subgroup = int(self._book.of(np.array([task]))[0])
        if subgroup in self._gone:
            return None
        if subgroup < 0 or self._spare[subgroup] > 0:
            if not self._pay([task]):
                return None
            if subgroup >= 0:
                self._spare[subgroup] -= 1
                self._taken.setdefault(subgroup, []).append(task)
            return Unit(self._job.index, (task,), False)
        policy = int(self._book.policy[subgroup])
        if not self._in_part[subgroup] and self._least[policy] <= 0:
            return None
        tasks = self._book.tasks(subgroup, Status.BOUND).tolist()
        if not self._pay([t for t in tasks if t not in self._taken.get(subgroup, ())]):
            return None
        self._gone.add(subgroup)
        if not self._in_part[subgroup]:
            self._least[policy] -= 1
        return Unit(self._job.index, tuple(tasks), False, subgroup=self._book.names[subgroup])

    def _pay(self, tasks: list[int]) -> bool:
        """Whether tasks are above the minimum of the job and of their roles; then they count as gone."""
        roles = Counter(self._session.snapshot.jobs.task_role[tasks].tolist())
        if len(tasks) > self._left or any(n > self._left_of_role.get(role, n) for role, n in roles.items()):
            return False
        self._left -= len(tasks)
        for role in roles.keys() & self._left_of_role.keys():
            self._left_of_role[role] -= roles[role]
        return True


def find(session: Session, claim: Claim) -> Candidates:
    """All tasks that may be evicted for a claim, each judged alone."""
    snapshot, state = session.snapshot, session.state
    table = snapshot.tasks
    spared, beyond = ~table.preemptable | table.resident, beyond_share(session)
    if beyond is not None:
        spared &= ~beyond
    chosen = (state.status == Status.BOUND) & ~spared & ~table.foreign & (state.node >= 0)
    for row in set(table.job[state.status == Status.SUCCEEDED].tolist()).intersection(snapshot.jobs.elastic):
        if is_ending(session, session.job(row)):  # Its room is free soon; if stopped now, the job would run again.
            chosen[snapshot.jobs.members[row]] = False
    queues = snapshot.jobs.queue[table.job]
    mine = snapshot.jobs.queue[claim.job.index]
    if claim.across_queues:
        takeable = np.array([q.reclaimable for q in snapshot.queues.queues] + [False])
        chosen &= (queues != mine) & takeable[queues]
    else:
        chosen &= (queues == mine) & (snapshot.jobs.priority[table.job] < claim.job.priority)
        if claim.shape >= 0 and snapshot.shapes.best_effort[claim.shape]:
            chosen &= snapshot.shapes.best_effort[table.shape]  # It lacks a pod slot: no one loses resources for it.
    tasks = np.flatnonzero(chosen)
    if len(tasks):
        each = Claim(claim.job, claim.shape, claim.across_queues, claim.priority, together=False)
        tasks = tasks[session.hooks.victims(each, tasks)]
    return Candidates(session, claim, tasks)


def inside(session: Session, claim: Claim) -> Candidates:
    """The job's own tasks that may make room for its more important tasks."""
    tasks = session.tasks_of(claim.job, Status.BOUND)
    may = session.snapshot.tasks.preemptable[tasks] | unprotected(session, tasks)
    tasks = tasks[may & (session.state.node[tasks] >= 0)]
    if len(tasks):
        each = Claim(claim.job, claim.shape, False, claim.priority, together=False)
        tasks = tasks[session.hooks.victims(each, tasks)]
    return Candidates(session, claim, tasks)


class CandidateBook:
    """The candidates for the claims of one action, computed once for claims that differ only in the job.

    Made for one action in which pods only leave: `Candidates` notices pods that left, not pods that arrived.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[Hashable, Candidates] = {}

    def others(self, claim: Claim) -> Candidates:
        """Candidates that belong to other jobs than the claimant."""
        session, job = self._session, claim.job
        if session.state.job_allocated[job.index].any():
            found = find(session, claim)
            theirs = session.snapshot.tasks.job[found.tasks] != job.index
            return Candidates(session, claim, found.tasks[theirs])
        asks = None if claim.shape >= 0 else tuple(sorted((job.min_resources or {}).items()))
        equal = (claim.across_queues, job.queue, job.priority, claim.shape, asks)
        if equal not in self._known:
            self._known[equal] = find(session, claim)
        self._known[equal].begin(claim)
        return self._known[equal]


def work_lost(snapshot: Snapshot, tasks: Ints | Sequence[int], now: float) -> list[Work]:
    """What each task has done since its start or its last checkpoint."""
    table = snapshot.tasks
    saved: Floats = table.checkpoint[tasks]
    since = np.maximum(table.started[tasks], np.where(np.isnan(saved), -np.inf, saved))
    seconds = np.maximum(now - since, 0.0)
    seconds[table.status[tasks] != Status.BOUND] = 0.0  # bound in this cycle: nothing has run
    shapes = table.shape[tasks]
    cpu = snapshot.shapes.requests[shapes, snapshot.axes.index[CPU]]
    return list(map(Work, (snapshot.shapes.gpus[shapes] * seconds).tolist(), (cpu * seconds).tolist()))
