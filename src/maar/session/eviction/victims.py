"""Victims: which tasks may be evicted for a claim, in which units, and at what cost.

Tasks are evicted in *units*: one task above the minimum of its job, role and subgroup, a whole subgroup above the least
number of subgroups, or a whole gang at once. A gang is never reduced below its minimum, and a whole gang is evicted
only if every member may be. An elastic job shrinks instead: its workers from one index on leave together and are not
evicted. Plugins vote twice: once on each task alone, to find candidates, and again on a whole unit just before its
eviction, because earlier evictions count (budgets, queue shares). For reclaim a gang is not divided, like a pod: its
surplus leaves first, and its minimum may leave if its queue then still has more than it deserves. `cost` defines what
victims cost.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from maar.config.gangs import names_victims
from maar.model.fitting import EVERY
from maar.model.jobs import Job
from maar.model.minimum import Spare
from maar.model.plan import Cause
from maar.model.resources import Ints, Mask
from maar.model.tasks import NO_TASKS, READY, Status
from maar.session.eviction.cost import Cost, LostWork, Rank, TieKey
from maar.session.eviction.gang_table import GangTable, lost_by_task
from maar.session.eviction.protection import beyond_share, limits_claims, unprotected
from maar.session.eviction.shortfall import Shortfalls
from maar.session.eviction.units import Unit
from maar.session.eviction.verdicts import Verdicts
from maar.session.gangs import spare
from maar.session.hooks import Claim
from maar.session.resizing.workers import is_ending, workers_of
from maar.session.session import Session
from maar.session.subgroups import subgroups_of

if TYPE_CHECKING:
    from maar.session.eviction.openings import Openings

BOUND = int(Status.BOUND)
"""A plain integer: numpy compares enum members slowly."""
SUCCEEDED = int(Status.SUCCEEDED)

OWNER = "victims"
Places = dict[int, int]
"""Queue to its place among the queues that lose tasks: smaller first. Empty if all are equal."""
NO_PLACES: Places = {}
Votes = Callable[[Claim, Ints], Mask]
"""Which tasks may be evicted for a claim: `Hooks.victims`, or some of the voters."""


class Candidates:
    """The tasks that may be evicted for a claim, by job and node; shared by claims that differ only in the job."""

    def __init__(self, session: Session, claim: Claim, tasks: Ints, gangs: GangTable | None = None) -> None:
        """`gangs`: the table of these tasks, if it is known."""
        self._session = session
        self._claim = claim
        self.tasks = tasks
        snapshot = session.snapshot
        self._may: Mask = np.zeros(len(snapshot.tasks), dtype=np.bool_)
        """Which of all tasks are candidates."""
        self._may[tasks] = True
        self.gangs = gangs or GangTable(session, claim, tasks)
        self._losers: tuple[int, ...] = tuple(np.unique(snapshot.jobs.queue[snapshot.tasks.job[tasks]]).tolist())
        self._queues = self._losers if claim.across_queues and len(self._losers) > 1 else ()
        """The queues that may lose tasks, if there is a choice."""
        self._is_limited = limits_claims(session)
        self._gpu_seconds, self._cpu_seconds = lost_by_task(session)
        self._rooms: dict[int, tuple[int, Ints]] = {}
        """By shape, with the version of the state: see `room`."""
        self._mixed: dict[int, tuple[int, ...]] | None = None
        self.openings: dict[tuple[int, bytes], Openings] = {}
        """The openings that the search cached, by shape and usable nodes."""
        self._without: frozenset[Unit] = frozenset()
        self.is_outvoted = False
        """Whether plugins did not agree to evict a unit in this search."""
        self.begin(claim)

    def begin(self, claim: Claim, without: frozenset[Unit] = frozenset()) -> None:
        """Start a search: tasks dropped in an earlier search are candidates again, except the units `without`."""
        if without or self._without or self.is_outvoted:
            self.openings = {asked: o for asked, o in self.openings.items() if o.is_first and o.follow_refusals}
        self._claim, self._without = claim, without
        self._refused: Mask = np.zeros(len(self._session.snapshot.jobs), dtype=np.bool_)
        """Jobs whose whole gang may not be evicted after all."""
        self._refused[[unit.job for unit in without if unit.whole]] = True
        self._dropped: set[int] = {task for unit in without if not unit.whole for task in unit.tasks}
        """Tasks that may not be evicted after all."""
        self.is_outvoted = False
        self.shortfalls = Shortfalls(self._session, claim, self.left(), self._losers)
        self._outvoted: set[int] = set()
        """Jobs whose whole gang a plugin refused just before its eviction."""

    @cached_property
    def by_row(self) -> dict[int, list[int]]:
        """The candidates on each node."""
        found: dict[int, list[int]] = {}
        for task, row in zip(self.tasks.tolist(), self._session.state.node[self.tasks].tolist(), strict=True):
            found.setdefault(row, []).append(task)
        return found

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

    def gangs_there(self, gangs: Ints | slice = EVERY) -> Mask:
        """The gangs of the table that may leave: of those with these numbers, if they are given."""
        return self.gangs.there(self._refused, gangs)

    def gang_places(self, gangs: Ints) -> Ints | None:
        """`Cost.queue` of gangs of the table; `None`: all equal."""
        places = self.places()
        return np.array([places[queue] for queue in self.gangs.queue[gangs].tolist()]) if places else None

    def gang_shortfalls(self, gangs: Ints) -> Ints | None:
        """The order of gangs of the table by `Cost.shortfall`; `None`: all equal."""
        if not self.shortfalls:
            return None
        kind, kinds = self.gangs.kind[gangs], self.gangs.kinds
        below = {k: self.shortfalls.of_holder(*kinds[k]) for k in np.bincount(kind).nonzero()[0].tolist()}
        order = {of: number for number, of in enumerate(sorted(set(below.values())))}
        places = np.zeros(len(kinds), dtype=np.int64)
        places[list(below)] = [order[of] for of in below.values()]
        return places[kind]

    def mixed_rows(self) -> dict[int, tuple[int, ...]]:
        """The nodes where several queues may lose tasks, with these queues."""
        if self._mixed is None:
            table, of_job = self._session.snapshot.tasks, self._session.snapshot.jobs.queue
            queues = {row: tuple(sorted(set(of_job[table.job[t]].tolist()))) for row, t in self.by_row.items()}
            self._mixed = {row: there for row, there in queues.items() if len(there) > 1}
        return self._mixed

    def left(self) -> Ints:
        """The candidates that are still bound."""
        return np.asarray(self.tasks[self._session.state.status[self.tasks] == BOUND])

    def room(self, shape: int) -> Ints:
        """How many tasks of a shape each node takes later, at best, if all candidates may go: for a proof."""
        version = self._session.state.version
        if self._rooms.get(shape, (-1,))[0] != version:
            self._rooms[shape] = version, self._session.capacity.at_best(shape, self.left(), proven=True)
        return self._rooms[shape][1]

    def here(self, row: int) -> list[int]:
        """The candidates still bound on a node, cheapest single task first."""
        status = self._session.state.status
        there = (t for t in self.by_row.get(row, ()) if status.item(t) == BOUND)
        return self._in_order(t for t in there if t not in self._dropped)

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
        job, below = snapshot.jobs.jobs[table.job.item(task)], self.shortfalls.of_task(task)
        if job.is_elastic:
            cost = Cost(evicts=False, queue=queue, priority=job.priority, shortfall=below)
            return Rank(cost, ((job.key, -one.index),), task)
        priority, work = table.priority.item(task), self.work((task,))
        if not self._is_limited:
            cost = Cost(True, False, queue, job.priority, below, 0, priority, work)
            return Rank(cost, ((job.key, -one.index),), task)
        # A tenant gives her pods any priority: it orders them among themselves only.
        own = (job.key, priority), (job.key, -one.index)
        return Rank(Cost(True, False, queue, job.priority, below, 0, 0, work), own, task)

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
            shortfall=self.shortfalls.of(units),
            gangs=gangs / room if room else math.inf,
            work=self.lost(units),
        )

    def work(self, tasks: tuple[int, ...]) -> LostWork:
        return LostWork(sum(map(self._gpu_seconds.item, tasks)), sum(map(self._cpu_seconds.item, tasks)))

    def lost(self, units: Iterable[Unit]) -> LostWork:
        """The work lost with some units. A job that shrinks saves its work: only evicted tasks count."""
        return self.work(tuple(t for unit in units if not unit.shrinks for t in unit.tasks))

    def singles(self, tasks: list[int]) -> list[Unit]:
        """The given tasks that may leave without their gang, in order: at most the surplus of each job and role."""
        jobs, roles = self._session.snapshot.tasks.job, self._session.snapshot.jobs.task_role
        left: dict[int, Spare[int]] = {}
        divided: dict[int, Surplus] = {}
        chosen = []
        for task in tasks:
            job, role = jobs.item(task), roles.item(task)
            of = self._session.job(job)
            if job not in left:
                left[job] = spare(self._session, of)
            if of.is_elastic:
                unit = self._from_index(job, task)
                if unit is not None and left[job].covers({role: len(unit.tasks)}):
                    chosen.append(unit)
            elif of.subgroups:
                if job not in divided:
                    divided[job] = Surplus(self._session, of)
                unit = divided[job].take(task)
                if unit is not None and (len(unit.tasks) == 1 or self._may_all_leave(unit)):
                    chosen.append(unit)
            elif left[job].take({role: 1}):
                chosen.append(Unit(job, (task,), False))
        if divided:
            chosen.sort(key=lambda unit: self._rank(unit).cost[:4] + (bool(unit.subgroup),))
        return chosen

    def _may_all_leave(self, unit: Unit) -> bool:
        return not self._dropped.intersection(unit.tasks) and bool(self._may[list(unit.tasks)].all())

    def _from_index(self, job: int, task: int) -> Unit | None:
        """A worker and all workers with a higher index, if each of them may leave."""
        session, table = self._session, self._session.snapshot.tasks.tasks
        workers = workers_of(session, session.job(job), Status.BOUND).tolist()
        going = [t for t in workers if table[t].index >= table[task].index]
        if task not in workers or self._dropped.intersection(going) or not self._may[going].all():
            return None
        return Unit(job, tuple(going), False, shrinks=True)

    def whole(self, job: int) -> Unit | None:
        """A gang as one unit, if whole gangs may be evicted and every running member may be."""
        gang = self._session.hooks.gang
        if gang is None or self._refused[job] or job == self._claim.job.index:
            return None
        if not (gang.whole_for_reclaim if self._claim.across_queues else gang.whole_for_preempt):
            return None
        running = self._session.tasks_of(self._session.job(job), Status.BOUND)
        if not self._may[running].all() or self._dropped.intersection(running.tolist()):
            self._refused[job] = True
        return None if self._refused[job] or not len(running) else Unit(job, tuple(running.tolist()), True)

    def units(self) -> list[Unit]:
        """All current units, cheapest first."""
        return [unit for _, unit in self._ranked([*self.gangs.job.tolist(), *self.gangs.others])]

    def _ranked(self, jobs: Iterable[int]) -> list[tuple[Rank, Unit]]:
        """The current units of some jobs, cheapest first."""
        found: list[Unit] = []
        for job in jobs:
            running = self._session.tasks_of(self._session.job(job), Status.BOUND)
            here = [t for t in running[self._may[running]].tolist() if t not in self._dropped]
            found.extend(self.singles(self._in_order(here)))
            whole = self.whole(job)
            if whole is not None:
                found.append(whole)
        return sorted(((self._rank(unit), unit) for unit in found), key=itemgetter(0))

    def in_turn(self) -> Iterator[Unit]:
        """All current units for a claim inside a queue, cheapest first. Nothing else may leave in between."""
        gangs, rest = self.gangs, deque(self._ranked(self.gangs.others))
        for gang in gangs.turn[self.gangs_there(gangs.turn)].tolist():
            unit = self.whole(gangs.job.item(gang))
            while unit is not None and rest and rest[0][0] < self._rank(unit):
                yield rest.popleft()[1]
            if unit is not None:
                yield unit
        yield from (unit for _, unit in rest)

    def units_of_kin(self) -> list[Unit]:
        """The current units of queues that share a parent with the claimant's queue, below the root, cheapest first.

        Evictions in another queue free no quota of this queue, except under a common parent.
        """
        queues, queue_of_job = self._session.snapshot.queues, self._session.snapshot.jobs.queue
        above = set(queues.path[int(queue_of_job[self._claim.job.index])][1:-1])
        kin = {queue for queue in self._losers if above.intersection(queues.path[queue][1:-1])}
        jobs = (*self.gangs.job.tolist(), *self.gangs.others) if kin else ()
        return [unit for _, unit in self._ranked(job for job in jobs if queue_of_job.item(job) in kin)]

    def _rank(self, unit: Unit) -> Rank:
        """The sort key of a unit among all units: single tasks also by their own priority."""
        if unit.whole or unit.shrinks or unit.subgroup:
            return Rank(self.cost([unit]), self.key(unit.tasks), unit.tasks[0])
        return self._single_rank(unit.tasks[0], self.place((unit,), self.places()))

    def agreed(self, unit: Unit, votes: Votes | None = None) -> bool:
        """Whether all voters, or some, agree to evict exactly these tasks now, after the earlier evictions."""
        tasks, hooks = np.array(unit.tasks), self._session.hooks
        votes = votes or (hooks.victims_again if self._may[tasks].all() else hooks.victims)
        if not unit.whole or not self._claim.across_queues:
            return bool(votes(self._claim, tasks).all())
        whole = msgspec.structs.replace(self._claim, whole=True)
        surplus, least = (NO_TASKS, tasks) if unit.job in self.gangs else self._divided(unit)
        if not len(surplus):
            return bool(votes(whole, least).all())
        if not votes(self._claim, surplus).all():
            return False
        with self._session.statement():  # not committed
            self._session.evict(surplus, self._claim.job, "", Cause.RECLAIMED)
            return bool(votes(whole, least).all())

    def refuse(self, unit: Unit, gangs: Collection[int] = ()) -> None:
        """Leave out a unit to which plugins did not agree; `gangs` are refused with it."""
        if unit.whole:
            gangs = {unit.job, *gangs}
            self._refused[list(gangs)] = True
            self._outvoted.update(gangs)
        else:
            self._dropped.update(unit.tasks)
        self.is_outvoted = True
        self.openings = {asked: known for asked, known in self.openings.items() if unit.whole and known.follow_refusals}

    def _divided(self, unit: Unit) -> tuple[Ints, Ints]:
        """The surplus of a whole gang, which leaves first, and its minimum, which leaves as one."""
        surplus = {t for one in self.singles(self._in_order(unit.tasks)) for t in one.tasks}
        tasks = np.array(unit.tasks)
        above = np.array([t in surplus for t in unit.tasks], dtype=np.bool_)
        return tasks[above], tasks[~above]

    def within_share(self) -> Job | None:
        """A gang that the search could not evict because of what its queue deserves or is guaranteed, or `None`."""
        session = self._session
        sharing = {o.name for tier in session.config.tiers for o in tier if names_victims(o.name, o.flags)}
        voters = [entry for entry in session.hooks.reclaimable if entry.plugin in sharing]
        claim = msgspec.structs.replace(self._claim, whole=True)
        for job in sorted((session.job(i) for i in self._outvoted), key=lambda job: job.key):
            surplus, least = self._divided(Unit(job.index, tuple(session.tasks_of(job, Status.BOUND).tolist()), True))
            with session.statement():  # not committed
                session.evict(surplus, self._claim.job, "", Cause.RECLAIMED)
                votes = [entry.call(claim, least) for entry in voters]
            if any(vote is not None and not vote.all() for vote in votes):
                return job
        return None


class Surplus:
    """What may leave a job with subgroups, task by task: the tasks given to `take` are assumed to leave."""

    def __init__(self, session: Session, job: Job) -> None:
        self._session = session
        self._job = job
        self._book = subgroups_of(session, job)
        self._left = spare(session, job)
        ready = self._book.count(READY)
        self._spare: list[int] = np.maximum(ready - self._book.size, 0).tolist()
        """How many tasks of each subgroup are above its size."""
        self._in_part: list[bool] = (ready < self._book.size).tolist()
        self._least: list[int] = (self._book.complete(READY) - self._book.division.least).tolist()
        """How many subgroups of each policy are above the least number."""
        self._taken: dict[int, list[int]] = {}
        """Single tasks that leave, by subgroup."""
        self._gone: set[int] = set()
        """Subgroups that leave whole."""

    def has_taken(self, task: int) -> bool:
        """Whether a task leaves already, with its subgroup."""
        return int(self._book.of(np.array([task]))[0]) in self._gone

    def take(self, task: int, *, alone: bool = False) -> Unit | None:
        """The unit with which a task leaves: itself or, unless it leaves `alone`, its subgroup.

        `None` if it may not leave, or leaves already.
        """
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
        if alone or (not self._in_part[subgroup] and self._least[policy] <= 0):
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
        return self._left.take(Counter(self._session.snapshot.jobs.task_role[tasks].tolist()))


def find(session: Session, claim: Claim) -> Ints:
    """All tasks that may be evicted for a claim, each judged alone."""
    snapshot, state = session.snapshot, session.state
    table = snapshot.tasks
    tasks = (state.status == BOUND).nonzero()[0]
    spared, beyond = ~table.preemptable[tasks] | table.resident[tasks], beyond_share(session)
    if beyond is not None:
        spared &= ~beyond[tasks]
    jobs, shapes = table.job[tasks], table.shape[tasks]
    chosen = ~spared & ~table.foreign[tasks] & (state.node[tasks] >= 0)
    ending = table.job[state.status == SUCCEEDED] if snapshot.jobs.elastic else NO_TASKS
    for row in set(ending.tolist()).intersection(snapshot.jobs.elastic):
        if is_ending(session, session.job(row)):  # Its room is free soon; if stopped now, the job would run again.
            chosen[jobs == row] = False
    queues = snapshot.jobs.queue[jobs]
    mine = snapshot.jobs.queue[claim.job.index]
    if claim.across_queues:
        takeable = np.array([q.reclaimable for q in snapshot.queues.queues] + [False])
        chosen &= (queues != mine) & takeable[queues]
    else:
        chosen &= (queues == mine) & (snapshot.jobs.priority[jobs] < claim.job.priority)
        if claim.shape >= 0 and snapshot.shapes.best_effort[claim.shape]:
            chosen &= snapshot.shapes.best_effort[shapes]  # It lacks a pod slot: no one loses resources for it.
    return _agreed(session, claim, tasks[chosen])


def inside(session: Session, claim: Claim) -> Candidates:
    """The job's own tasks that may make room for its more important tasks."""
    tasks = session.tasks_of(claim.job, Status.BOUND)
    may = session.snapshot.tasks.preemptable[tasks] | unprotected(session, tasks)
    return Candidates(session, claim, _agreed(session, claim, tasks[may & (session.state.node[tasks] >= 0)]))


def _agreed(session: Session, claim: Claim, tasks: Ints) -> Ints:
    """Those of the tasks that plugins let go, each judged alone."""
    if len(tasks):
        tasks = tasks[session.hooks.victims(msgspec.structs.replace(claim, together=False), tasks)]
    return tasks


class CandidateBook:
    """The candidates for the claims of one action, computed once for claims that differ only in the job.

    Made for one action in which pods only leave: `Candidates` notices pods that left, not pods that arrived.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[Hashable, Candidates] = {}
        self._tables: dict[Hashable, GangTable] = {}
        self.verdicts = Verdicts()

    def others(self, claim: Claim) -> Candidates:
        """Candidates that belong to other jobs than the claimant."""
        session, job = self._session, claim.job
        if session.state.job_allocated[job.index].any():
            found = find(session, claim)
            return Candidates(session, claim, found[session.snapshot.tasks.job[found] != job.index])
        asks = None if claim.shape >= 0 else tuple(sorted((job.min_resources or {}).items()))
        equal = (claim.across_queues, job.queue, job.priority, claim.shape, asks)
        if equal not in self._known:
            tasks = find(session, claim)
            same = claim.across_queues, tasks.tobytes()
            if same not in self._tables:
                self._tables[same] = GangTable(session, claim, tasks)
            self._known[equal] = Candidates(session, claim, tasks, self._tables[same])
        self._known[equal].begin(claim)
        return self._known[equal]
