"""One step of a shard: what it does, wants, lends and gives back, from what it knows now. A pure function.

The shard decides on the whole cluster for the jobs of its queues, with its own nodes first. What the plan does for a
job on own nodes with own victims is done. A job that got nodes of other shards, or victims of other shards, becomes a
want with all its nodes; nothing is done for it yet. So a want is written only if `decide` over the whole cluster places
the job, and nothing is evicted for a job that could use idle nodes of another shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from maar.config.config import Config
from maar.decide import decide
from maar.model.facts import About, Fact, joined
from maar.model.fitting import Mode
from maar.model.minimum import has_minimum
from maar.model.plan import Bind, Evict, Nominate, Plan, Reserve, Resize, Resume, Suspend, Target, Wait
from maar.model.reasons import Reason
from maar.model.resources import Mask
from maar.model.scope import Scope
from maar.model.snapshot import Snapshot
from maar.model.tasks import READY, Status
from maar.session.binds_over_limit import uncovered
from maar.shards.election import first_elected, want_of_elected, with_election
from maar.shards.map import ShardMap
from maar.shards.scope import own_jobs, scope_of, shard_of
from maar.shards.sharing import borrowing, full
from maar.shards.slots import slot_of
from maar.shards.wants import Pause, Want, paused, want_of

Id = tuple[str, str]
"""Key and uid of a job."""
P = TypeVar("P", Bind, Nominate)
J = TypeVar("J", Reserve, Resize, Suspend, Resume, Target)


class Standing(msgspec.Struct, frozen=True):
    """What the holder of a shard knows besides the cluster."""

    shards: frozenset[int]
    """The shards that a process holds: it decides for all of them at once. Usually one."""
    owners: ShardMap
    uses: frozenset[str]
    """The nodes that it uses: the map gives them to it, and it has listed the pods there (rule 5)."""
    queues: frozenset[str]
    """The queues that it decides for (rule 8)."""
    leaving: frozenset[str] = frozenset()
    """Queues that it lets go: it begins nothing new for them, and its wants stand until they end."""
    homes: dict[str, int] = {}
    """Nodes that should be in another shard than the one of their slot, because of their rack."""
    wants: tuple[Want, ...] = ()
    """The wants of all shards, also its own."""
    pauses: tuple[Pause, ...] = ()
    """Its own memory of wants that were not served in time."""

    def is_everything(self, snapshot: Snapshot) -> bool:
        """Whether it decides for all queues, and uses all nodes."""
        if self.leaving or not self.shards.issuperset(self.owners.members()):
            return False
        queues = (queue.name for queue in snapshot.queues.queues)
        return self.uses.issuperset(snapshot.nodes.names) and self.queues.issuperset(queues)

    def homes_of(self, nodes: Iterable[str]) -> dict[str, int]:
        """The shard that each of these nodes should be in."""
        slots, homes = self.owners.slots, self.homes
        return {name: homes[name] if name in homes else slots[slot_of(name)] for name in nodes}


class Lend(msgspec.Struct, frozen=True, order=True):
    """A node that its owner gives to another shard, after it has settled all that it sent there."""

    node: str
    to: int


class Step(msgspec.Struct, frozen=True):
    """The decision of one shard. Its plan states only what belongs to its own jobs, and the one election."""

    plan: Plan
    wants: tuple[Want, ...] = ()
    """All its wants, in order; its earlier ones that are not among them have ended."""
    lends: tuple[Lend, ...] = ()
    pauses: tuple[Pause, ...] = ()


def decide_as(standing: Standing | None, snapshot: Snapshot, config: Config, now: float) -> Step:
    """What the holder of shards decides; without a standing, what one Maar decides for the whole cluster."""
    return Step(decide(snapshot, config, now)) if standing is None else step(snapshot, config, now, standing)


def step(snapshot: Snapshot, config: Config, now: float, standing: Standing) -> Step:
    """What a shard does now. For a process that holds all shards this is `decide`."""
    if standing.is_everything(snapshot):
        return Step(decide(snapshot, config, now))
    others = sorted((w for w in standing.wants if _counts(w, standing, now)), key=lambda w: w.place)
    elected, others = first_elected(snapshot, others), [w for w in others if w.elected is None]
    before, ended = _own_wants(snapshot, standing, now)
    pauses = _pauses(snapshot, standing, ended, now)
    confined = {pause.id for pause in pauses if now < pause.until}

    def decided(before: Mapping[Id, Want]) -> tuple[Scope, _Division, tuple[Want, ...]]:
        kept = sorted([*others, *before.values()], key=lambda w: w.place)
        scope = scope_of(snapshot, standing.owners, standing.uses, standing.queues, kept, confined)
        if standing.leaving:
            scope = replace(scope, jobs=_without(snapshot, scope.jobs, standing.leaving, before))
        snapshot.scope = scope = with_election(snapshot, scope, elected, now)
        try:
            division = _Division(snapshot, scope, standing, decide(snapshot, config, now))
        finally:
            snapshot.scope = None
        return scope, division, tuple(sorted(division.wants(before, now), key=lambda w: w.place))

    scope, division, wants = decided(before)
    if division.evicts and _nodes(before.values()) - _nodes(wants):
        # An own job no longer wants some nodes that were kept for it. Other jobs may fit there without evictions.
        scope, division, wants = decided({want.id: want for want in wants})
    own = division.plan(wants)
    lends = _Lending(snapshot, scope, standing, own, wants).lends(others, elected, ended)
    lends += division.gathered(wants)
    mine = want_of_elected(snapshot, scope, own, standing.owners, standing.wants, now)
    wants = wants if mine is None else tuple(sorted((*wants, mine), key=lambda w: w.place))
    return Step(own, wants, lends, pauses)


def _of(items: Iterable[J], jobs: set[str]) -> tuple[J, ...]:
    """The items that are about these jobs."""
    return tuple(item for item in items if item.job in jobs)


def _nodes(wants: Iterable[Want]) -> set[str]:
    return {node for want in wants for node in want.nodes}


def _counts(want: Want, standing: Standing, now: float) -> bool:
    """Whether a want of another shard still stands: nobody ends the wants of a dead shard."""
    return want.shard not in standing.shards and now < want.deadline


def _own_wants(snapshot: Snapshot, standing: Standing, now: float) -> tuple[dict[Id, Want], list[Want]]:
    """The shard's own wants of jobs that still wait: those that stand, and those that were not served in time."""
    table, number = snapshot.jobs, snapshot.jobs.number
    own = [w for w in standing.wants if w.shard in standing.shards and w.job in number and w.elected is None]
    own = [w for w in own if table.jobs[number[w.job]].uid == w.uid and table.waits[number[w.job]]]
    return {w.id: w for w in own if now < w.deadline}, [w for w in own if now >= w.deadline]


def _pauses(snapshot: Snapshot, standing: Standing, ended: list[Want], now: float) -> tuple[Pause, ...]:
    table, number = snapshot.jobs, snapshot.jobs.number
    known = {p.id: p for p in standing.pauses if p.job in number and table.waits[number[p.job]]}
    known.update({want.id: paused(want, known.get(want.id), now) for want in ended})
    return tuple(known[key] for key in sorted(known))


def _without(snapshot: Snapshot, jobs: Mask, leaving: frozenset[str], before: Mapping[Id, Want]) -> Mask:
    """The jobs without those of queues that are let go, except jobs that have a want."""
    table = snapshot.jobs
    gone = np.array([queue.name in leaving for queue in snapshot.queues.queues] + [False])[table.queue]
    gone[[table.number[job] for job, _ in before]] = False
    left: Mask = jobs & ~gone
    return left


class _Division:
    """Divides a plan into what the shard can do with its own nodes and tasks, and what needs other shards."""

    def __init__(self, snapshot: Snapshot, scope: Scope, standing: Standing, plan: Plan) -> None:
        self._snapshot = snapshot
        self._scope = scope
        self._standing = standing
        self._plan = plan
        self._job_of = _jobs_of_waiting(snapshot)
        """Task to its job, for tasks that wait: a plan places only these, and running tasks are many."""
        self._nodes: dict[int, set[str]] = {}
        """Job to the nodes on which the plan gives it room."""
        self._victims: dict[int, list[Evict]] = {}
        """Job to the tasks of other shards that leave for it."""
        self._binds: dict[int, list[Bind]] = {}
        """Own job to its binds."""
        self._read()
        borrows = {row for row, nodes in self._nodes.items() if not nodes <= standing.uses}
        self._in_part = {row for row in borrows - self._victims.keys() if self._is_enough(row)}
        """Jobs that get some pods on own nodes now, and more on nodes of other shards."""
        self._withheld = borrows - self._in_part
        """Jobs for which nothing is done before the shard has all their nodes."""
        self._asking = set(self._victims) - borrows
        """Jobs that have all their nodes and wait for victims of other shards."""

    @property
    def evicts(self) -> bool:
        return bool(self._plan.evict)

    def gathered(self, wants: tuple[Want, ...]) -> tuple[Lend, ...]:
        """Moves between the shards of one process, for wants that ask: their shard must be the owner (rule 7)."""
        owners = self._standing.owners
        asked = (want for want in wants if want.victims and not want.asks)
        return tuple(
            Lend(node, want.shard) for want in asked for node in want.nodes if owners.owner_of(node) != want.shard
        )

    def _row(self, task: str) -> int:
        row = self._job_of.get(task)
        return int(self._snapshot.tasks.job[self._snapshot.tasks.number[task]]) if row is None else row

    def _is_own(self, task: str) -> bool:
        return bool(self._scope.jobs[self._row(task)])

    def _read(self) -> None:
        number = self._snapshot.jobs.number
        rooms = [(self._row(bind.task), bind.node) for bind in self._plan.bind]
        rooms += [(self._row(nominate.task), nominate.node) for nominate in self._plan.nominate]
        rooms += [(number[reserve.job], reserve.node) for reserve in self._plan.reserve]
        for bind in self._plan.bind:
            self._binds.setdefault(self._row(bind.task), []).append(bind)
        for row, node in rooms:
            if self._scope.jobs[row]:
                self._nodes.setdefault(row, set()).add(node)
        for evict in self._plan.evict:
            if not self._is_own(evict.task) and self._scope.jobs[number[evict.beneficiary]]:
                self._victims.setdefault(number[evict.beneficiary], []).append(evict)

    def _is_enough(self, row: int) -> bool:
        """Whether a job has its minimum with only those binds that are on own nodes."""
        tasks, job = self._snapshot.tasks, self._snapshot.jobs.jobs[row]
        if job.elastic is not None or job.subgroups:
            return False
        here = [b.task for b in self._binds.get(row, ()) if b.node in self._standing.uses]
        ready = [t for t in self._snapshot.tasks_of(row) if t.status in READY]
        return has_minimum(job, ready + [tasks.tasks[tasks.number[task]] for task in here])

    def wants(self, before: Mapping[Id, Want], now: float) -> list[Want]:
        """A want for each job that needs other shards. A want of before stands until its job is bound.

        So does the place of an elected job that starts now: its want becomes an ordinary one.
        """
        found, jobs, owners = [], self._snapshot.jobs.jobs, self._standing.owners
        own = (w for w in self._standing.wants if w.shard in self._standing.shards)
        elected = {w.id for w in own if w.elected is not None}
        for row in sorted(self._nodes.keys() | self._victims.keys()):
            job = jobs[row].key, jobs[row].uid
            earlier, nodes = before.get(job), self._nodes.get(row, set())
            keeps_place = earlier is not None or (job in elected and row in self._binds)
            if row in self._in_part:
                nodes = nodes - self._standing.uses
            elif row not in self._withheld | self._asking and not keeps_place:
                continue
            want = want_of(shard_of(self._snapshot, owners, row), jobs[row], nodes, earlier, now)
            if row in self._asking:
                asks = all(owners.owner_of(node) == want.shard for node in want.nodes)
                want = replace(want, asks=asks, victims=tuple(self._victims.get(row, ())))
            found.append(want)
        return found

    def plan(self, wants: tuple[Want, ...]) -> Plan:
        """The part of the plan that the shard carries out."""
        plan, uses, jobs = self._plan, self._standing.uses, self._snapshot.jobs.jobs
        later = {jobs[row].key for row in self._withheld | self._asking}
        own = {jobs[row].key for row in np.flatnonzero(self._scope.jobs).tolist()}
        done = own - {jobs[row].key for row in self._withheld}
        evict = [e for e in plan.evict if self._is_own(e.task)]
        spared = {self._key(e.task) for e in evict if e.beneficiary in later}

        def here(places: Iterable[P]) -> tuple[P, ...]:
            return tuple(at for at in places if at.node in uses and self._key(at.task) in done)

        part = replace(
            plan,
            bind=here(plan.bind),
            nominate=here(plan.nominate),
            evict=self._leaving(evict, later),
            reserve=_of(plan.reserve, done),
            resize=_of(plan.resize, done - spared),
            suspend=_of(plan.suspend, own - spared),
            resume=_of(plan.resume, done),
            targets=_of(plan.targets, own),
            waiting=self._waiting([want for want in wants if want.job in later]),
            facts=joined(self._snapshot.cluster.facts, plan.facts, lambda fact: self._decides_on(fact, own)),
        )
        return self._within(part)

    def _leaving(self, evict: list[Evict], later: set[str]) -> tuple[Evict, ...]:
        """The own tasks that are evicted: not for jobs that have to wait, and none of a job that shrinks or stops."""
        sized = {change.job for change in self._plan.resize} | {change.job for change in self._plan.suspend}
        gone = self._gone_for_others(evict, later)
        return tuple(
            e
            for e in evict
            if (e.beneficiary not in later or self._key(e.task) in gone) and self._key(e.task) not in sized
        )

    def _gone_for_others(self, evict: list[Evict], later: set[str]) -> set[str]:
        """The jobs that leave whole, and not only for jobs that have to wait: none of their pods could stay alone."""
        tasks, jobs = self._snapshot.tasks, self._snapshot.jobs
        leaving = Counter(self._key(e.task) for e in evict)
        goes = {self._key(e.task) for e in evict if e.beneficiary not in later}
        members = {key: jobs.members[jobs.number[key]] for key in goes}
        return {key for key in goes if leaving[key] == int((tasks.status[members[key]] == Status.BOUND).sum())}

    def _within(self, part: Plan) -> Plan:
        """Without binds into room under the limit of a queue that evictions for jobs with wants will free."""
        left_out = uncovered(self._plan, part, self._snapshot)
        if not left_out:
            return part
        told = {wait.job for wait in part.waiting}
        waits = (Wait(job, (full(queue, self._since(job)),)) for job, queue in left_out.items() if job not in told)
        bind = tuple(b for b in part.bind if self._key(b.task) not in left_out)
        resume, reserve = (tuple(r for r in of if r.job not in left_out) for of in (part.resume, part.reserve))
        return replace(part, bind=bind, resume=resume, reserve=reserve, waiting=(*part.waiting, *waits))

    def _key(self, task: str) -> str:
        return self._snapshot.jobs.jobs[self._row(task)].key

    def _waiting(self, wants: list[Want]) -> tuple[Wait, ...]:
        """Why jobs wait; for jobs that borrow, also that."""
        known = {wait.job: wait for wait in self._plan.waiting}
        for want in wants:
            before = known.get(want.job, Wait(want.job, ()))
            known[want.job] = replace(before, reasons=(self._borrows(want), *before.reasons))
        return tuple(known.values())

    def _borrows(self, want: Want) -> Reason:
        away = set(want.nodes) - self._standing.uses
        return borrowing(want, len(away), self._since(want.job))

    def _since(self, key: str) -> float:
        job = self._snapshot.jobs.jobs[self._snapshot.jobs.number[key]]
        return job.waits_since

    def _decides_on(self, fact: Fact, own: set[str]) -> bool:
        """Whether a fact is about something of the shard; facts about what belongs to others stay as they are."""
        parts = {About.JOB: own, About.QUEUE: self._standing.queues, About.NODE: self._standing.uses}
        return fact.about is About.CLUSTER or fact.key in parts[fact.about]


class _Lending:
    """The nodes to give away: each to the first want that names it, or back to the shard of its slot.

    A node that the shard's own jobs need now stays. These come before the want: the others may not use such a node.
    A node that is locked for the elected job of another shard goes there when it is empty. One that is locked for an
    own job goes to wants only: their jobs end before that job can start.
    """

    def __init__(
        self, snapshot: Snapshot, scope: Scope, standing: Standing, plan: Plan, wants: tuple[Want, ...]
    ) -> None:
        self._snapshot = snapshot
        self._scope = scope
        self._standing = standing
        self._plan = plan
        self._stay = _nodes(wants)
        self._stay.update(bind.node for bind in plan.bind)
        self._stay.update(nominate.node for nominate in plan.nominate)
        self._stay.update(reserve.node for reserve in plan.reserve)
        """Nodes that are not given away, or are given to someone already."""
        self._given: dict[str, int] = {}

    def lends(self, others: list[Want], elected: Want | None, ended: list[Want]) -> tuple[Lend, ...]:
        for want in others:
            self._give(want.nodes, want.shard)
        locked = {lock.node for lock in self._plan.locks if self._is_free(lock.node) or lock.node in self._given}
        if elected is not None and self._plan.elect is not None and self._plan.elect.job == elected.job:
            row, used = self._snapshot.nodes.row, _rows_with_pods(self._snapshot) if locked else set()
            self._give((node for node in locked if row[node] not in used), elected.shard)
        self._stay |= locked
        self._give_back(others, ended)
        self._give_to_racks()
        return tuple(Lend(node, self._given[node]) for node in sorted(self._given))

    def _is_free(self, node: str) -> bool:
        return node in self._standing.uses and node in self._snapshot.nodes.row and node not in self._stay

    def _give(self, nodes: Iterable[str], to: int) -> None:
        """Give those of the nodes that are free."""
        free = [node for node in nodes if self._is_free(node)]
        self._given.update((node, to) for node in free)
        self._stay.update(free)

    def _give_back(self, others: list[Want], ended: list[Want]) -> None:
        """Nodes without pods of own jobs go back to a shard that has use for them, or at once if the want failed."""
        snapshot, standing = self._snapshot, self._standing
        # Only a node with an entry in the map can have been lent. Entries are few, nodes are many.
        homes = standing.homes_of(name for name in standing.owners.nodes if self._is_free(name))
        lent = {name for name in homes if homes[name] not in standing.shards}
        if not lent:
            return
        lent -= {snapshot.nodes.names[row] for row in _rows_with_pods(snapshot, self._scope.jobs)}
        failed, wanting = _nodes(ended), {want.job for want in others}
        shards = sorted({homes[node] for node in lent})
        useful = {home: _useful(snapshot, standing.owners, home, wanting) for home in shards}
        for node in sorted(lent):
            if node in failed or useful[homes[node]][snapshot.nodes.row[node]]:
                self._give((node,), homes[node])

    def _give_to_racks(self) -> None:
        """Nodes that were never lent go to the shard of their rack at once; pods on them stay."""
        standing = self._standing
        for node, home in standing.homes.items():
            if node not in standing.owners.nodes and home not in standing.shards:
                self._give((node,), home)


def _jobs_of_waiting(snapshot: Snapshot) -> dict[str, int]:
    tasks = snapshot.tasks
    waiting = np.flatnonzero((tasks.status == Status.PENDING) | (tasks.status == Status.NOMINATED))
    return dict(zip((tasks.tasks[task].key for task in waiting.tolist()), tasks.job[waiting].tolist(), strict=True))


def _rows_with_pods(snapshot: Snapshot, jobs: Mask | None = None) -> set[int]:
    """The nodes with pods of these jobs, or of any, also pods that are leaving or have nominated room."""
    tasks = snapshot.tasks
    there = (tasks.node >= 0) & ((tasks.status == Status.BOUND) | (tasks.status == Status.RELEASING))
    there |= (tasks.node >= 0) & (tasks.status == Status.NOMINATED)
    there &= ~tasks.resident
    if jobs is not None:
        there &= jobs[tasks.job]
    return set(tasks.node[there].tolist())


def _useful(snapshot: Snapshot, owners: ShardMap, shard: int, wanting: set[str]) -> Mask:
    """The nodes that a shard has use for: a pending pod of one of its jobs fits into their free room.

    Jobs with a want do not count: it names the nodes that they need.
    """
    tasks, shapes = snapshot.tasks, snapshot.shapes
    queues = {queue.name for queue in snapshot.queues.queues if owners.shard_of(queue.name) == shard}
    jobs = own_jobs(snapshot, (), queues)
    jobs[[row for key in wanting if (row := snapshot.jobs.number.get(key)) is not None]] = False
    waits = jobs[tasks.job] & (tasks.status == Status.PENDING)
    free = snapshot.free(Mode.CERTAIN)
    useful = np.zeros(len(free), dtype=np.bool_)
    for shape in np.unique(tasks.shape[waits]).tolist():
        useful |= (free >= shapes.requests[shape]).all(axis=1)
    return useful
