"""A session: the view of one cycle, on which actions act and which plugins answer.

A session opens on a snapshot with a configuration and lives for one cycle. It keeps nothing: information for the next
cycle leaves in the plan. Actions change it only through its state's verbs, inside statements, and reach plugins through
`hooks`. The plan is the difference between the final state and the snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np

from maar.config.config import Config
from maar.model.codes import QUEUE_INVALID
from maar.model.jobs import Job, OnHold, Phase
from maar.model.plan import Cause, Elect, Lock
from maar.model.queues import Queue
from maar.model.reasons import Reason, Refusal
from maar.model.resources import Ints, Mask
from maar.model.snapshot import Snapshot
from maar.model.tasks import NO_TASKS, Status, among
from maar.session.capacity import SessionRoom
from maar.session.extension import Plugin
from maar.session.hooks import Hooks, SharedRoom
from maar.session.memo import Memo
from maar.session.memory import ELECT, LOST, ROUND, LostElection, Memory, Moment, Remembered
from maar.session.register import Register
from maar.session.state import SessionState
from maar.session.statement import Statement
from maar.session.view import NodesView


class Decision(msgspec.Struct, frozen=True):
    """How many workers an elastic job gets, how many were planned, and why."""

    size: int
    planned: int
    why: str
    forgive: bool = False
    """The job was promoted: its attained service no longer counts for its place in the queues."""
    pool: str = ""


class PlannedEviction(NamedTuple):
    """Why a task is evicted, and for which job."""

    beneficiary: Job
    reason: str
    cause: Cause


ONLY_PENDING = (Status.PENDING,)
RESTS = "Changing"
"""The code of jobs that changed again and again while they were being started."""
NOT_RESUMED = "suspended, and the scheduler is configured without the action `resize`, which resumes jobs"


class Session:
    """One cycle.

    The results of actions (evictions, sizes, notes, admissions, the election) go through the journal, so a rollback
    restores them with the state. Only methods of the session write them.
    """

    CACHES: ClassVar[frozenset[str]] = frozenset({"memo", "capacity", "_views", "_wake", "depth"})
    """Attributes that a rollback does not restore. A wake-up time stays valid even if the attempt is undone."""

    def __init__(self, snapshot: Snapshot, config: Config, now: float) -> None:
        self.snapshot = snapshot
        self.config = config
        self.now = now
        self.state = SessionState(snapshot)
        self.hooks = Hooks()
        self.depth = 0
        """How many statements are open."""
        self.total: list[int] = snapshot.nodes.total
        """The allocatable resources of all nodes, as Python integers."""
        self.memo = Memo(self.state)
        """Caches of other modules."""
        self.capacity = SessionRoom(self)
        """What fits."""
        self.admitted: dict[int, Job] = {}
        """Job row to the job."""
        self.ungated: dict[int, Job] = {}
        """Task to its job: tasks whose gate is removed."""
        self.gated: dict[int, tuple[Reason, ...]] = {}
        """Job row to the reasons why gates of its tasks stay."""
        self.evictions: dict[int, PlannedEviction] = {}
        self.notes: dict[int, tuple[Reason, ...]] = {}
        """Job row to the reasons that actions noted for its waiting."""
        self.overused: dict[str, Reason] = {}
        """Queues skipped in this cycle, and why."""
        self.sizes: dict[int, Decision] = {}
        """Job row to the decision of `resize`."""
        around = snapshot.cluster if snapshot.scope is None else snapshot.scope
        self.elect: Elect | None = around.elect
        self.elect_before: Elect | None = around.elect
        """The election at the beginning of this cycle."""
        self.locks: dict[str, Lock] = {k.node: k for k in around.locks if self._is_for_target(k)}
        """The locks of the elected job, by node; others are released."""
        self.memory = Memory(snapshot, self.state, now)
        """What plugins and the core remember."""
        self._wake: list[float] = []
        self._views: dict[tuple[int, bool], NodesView] = {}

    # -- opening

    def open(self) -> None:
        """Build the plugins of this session and let them register."""
        for tier, options in enumerate(self.config.tiers):
            for option in options:
                plugin: Plugin = option.build()
                plugin.open(self, Register(self.hooks, option.name, tier, option.flags, self.memory))
        self.state.tell(counter for _, counter in self.hooks.counters if counter.listens)
        if self.hooks.target_job:
            self.memory.declare(ELECT, LOST)
        else:
            self.clear_target()
        for entry in self.hooks.victim_tasks:
            self.memory.declare(entry.plugin, ROUND)

    def close(self) -> None:
        """Ask the closing hooks, then drop everything.

        Plugins and caches refer to the session. Without this its memory is freed late, by the garbage collector.
        """
        for entry in self.hooks.close:
            entry.call()
        self.memory.close()
        self.state.close()
        vars(self).clear()

    def _is_there(self, key: str, uid: str) -> bool:
        """Whether the very job exists, not a later one of the same name."""
        number = self.snapshot.jobs.number.get(key)
        return number is not None and self.job(number).uid == uid

    def _is_for_target(self, lock: Lock) -> bool:
        """Whether a lock belongs to the elected job, and its node exists."""
        target = self.elect is not None and (lock.job, lock.uid) == (self.elect.job, self.elect.uid)
        return target and lock.node in self.snapshot.nodes.row

    # -- jobs and tasks

    def job(self, index: int) -> Job:
        return self.snapshot.jobs.jobs[index]

    def queue_of(self, job: Job) -> Queue:
        return self.snapshot.queues.queues[int(self.snapshot.jobs.queue[job.index])]

    def active(self, resting: bool = False) -> Sequence[Job]:
        """Jobs that wait for something and are valid, in a queue that exists and is valid; without resting jobs.

        Of several shards, only the jobs of the one that decides.
        """

        def find() -> list[Job]:
            return [job for job in self.waiting(resting) if self.trouble(job) is None]

        return self.memo.fixed("active", resting, find)

    def waiting(self, resting: bool = False) -> list[Job]:
        """The same with jobs that are in trouble."""
        rows, scope = self.snapshot.jobs.active, self.snapshot.scope
        own = rows if scope is None else [i for i in rows if scope.jobs[i]]
        return [self.job(i) for i in own if resting or i not in self.snapshot.resting]

    def elastic(self) -> list[Job]:
        """Jobs whose number of workers may change."""
        return [self.job(i) for i in self.snapshot.jobs.elastic]

    def trouble(self, job: Job) -> Reason | None:
        """Why a job cannot be considered, before any plugin is asked; `None` if it can."""
        if job.broken:
            return Reason("maar", "Invalid", job.broken)
        if self.is_held(job):
            return Reason("maar", "Held", self._why_held(job))
        if job.is_suspended and not self.config.has_action("resize"):
            return Reason("maar", "NotResumed", NOT_RESUMED)
        if job.settles is not None and self.now < job.settles:
            self.wake(job.settles)
            what = "waits for more of its pods to be created: their total number is not declared"
            return Reason("maar", "Settling", what)
        if job.rests is not None and self.now < job.rests:
            self.wake(job.rests)
            return Reason("maar", RESTS, _why_rests(job.rests))
        queue = int(self.snapshot.jobs.queue[job.index])
        if self.snapshot.jobs.refused[job.index]:
            refused = self.snapshot.queues.refusal(job)
            assert refused is not None, job.key
            return refused
        if self.snapshot.queues.broken[queue]:
            why = f"queue `{job.queue}`: {self.snapshot.queues.broken[queue]}"
            return Reason("maar", QUEUE_INVALID.name, why, queue=job.queue)
        return None

    def is_held(self, job: Job) -> bool:
        """Whether a job must not start, or must stop, because its owner holds it. One that runs may go on."""
        return job.on_hold is OnHold.STOP or (job.on_hold is OnHold.START and not self._has_started(job))

    def can_stop(self, job: Job) -> bool:
        """Whether a job can be suspended."""
        return job.elastic is not None and job.elastic.pausable and self.config.has_action("resize")

    def _has_started(self, job: Job) -> bool:
        """Whether it ran when the session opened. Pods of a suspended job are only not gone yet."""
        return not job.is_suspended and any(t.status is Status.BOUND for t in self.snapshot.tasks_of(job.index))

    def _why_held(self, job: Job) -> str:
        if not self._has_started(job):
            # What follows `@` in a key tells gangs of one name apart: no object has it in its name.
            release = f"`maar release {job.key.partition('@')[0]}`"
            return f"held by its owner with `maar.dev/hold`: it does not start before {release}"
        if self.can_stop(job):
            return "held by its owner: it is being stopped, as the annotation `maar.dev/hold: stop` says"
        how = "delete the job, or its pods, to stop it"
        return f"held by its owner, but it goes on: `maar.dev/hold: stop` cannot suspend a job of this kind; {how}"

    def is_pending(self, job: Job) -> bool:
        """Whether its group is not admitted, neither before nor in this session."""
        return job.phase is Phase.PENDING and job.index not in self.admitted

    def admit(self, job: Job) -> None:
        """Allow its operator to create its pods."""
        self.state.put(self.admitted, job.index, job)
        self.clear_notes(job)
        for entry in self.hooks.job_enqueued:
            entry.call(job)

    def ungate(self, job: Job, tasks: Ints) -> None:
        """Remove the gates of tasks, so that the next cycles may place them."""
        for task in tasks.tolist():
            self.state.put(self.ungated, task, job)

    def keep_gated(self, job: Job, *reasons: Reason) -> None:
        """Record why gates of a job stay."""
        self.state.put(self.gated, job.index, reasons)

    def tasks_of(self, job: Job, *statuses: Status) -> Ints:
        """Its tasks in the given statuses, by number."""
        first, last = self.snapshot.jobs.members.span(job.index)
        if first == last:
            return NO_TASKS
        if statuses == ONLY_PENDING and self.state.job_pending.item(job.index) == last - first:
            return np.arange(first, last)
        found: Ints = among(statuses).take(self.state.status[first:last]).nonzero()[0]
        found += first
        return found

    def on_nodes(self, tasks: Ints) -> Ints:
        """How many of some tasks each node has."""
        rows = self.state.node[tasks]
        return np.bincount(rows[rows >= 0], minlength=len(self.snapshot.nodes)).astype(np.int64)

    def waits(self, job: Job) -> bool:
        """Whether it has tasks without a node, with or without nominated room."""
        return bool(self.state.job_pending[job.index] + self.state.job_nominated[job.index])

    def nominated(self, job: Job) -> Ints:
        """Its tasks that wait for nominated room."""
        return self.tasks_of(job, Status.NOMINATED) if self.state.job_nominated[job.index] else NO_TASKS

    # -- nodes and shapes

    def refusals(self, shape: int) -> list[Refusal]:
        """The nodes that a shape may not use, by plugin and cause."""

        def ask() -> list[Refusal]:
            found = (refusal for entry in self.hooks.predicates for refusal in entry.call(shape))
            return [refusal for refusal in found if refusal.nodes.any()]

        return self.memo.fixed("refusals", shape, ask)

    def usable(self, shape: int) -> Mask:
        """The nodes that no predicate refuses to a shape."""

        def find() -> Mask:
            open_ = np.ones(len(self.snapshot.nodes), dtype=np.bool_)
            for refusal in self.refusals(shape):
                open_ &= ~refusal.nodes
            return open_

        return self.memo.fixed("usable", shape, find)

    def view(self, shape: int, later: bool = False) -> NodesView:
        """A shape compared with all nodes, up to date."""
        later = later and self.state.soft
        view = self._views.get((shape, later))
        if view is None:
            view = self._views[shape, later] = NodesView(self, shape, later)
            return view
        return view.refresh()

    def shared_rooms(self, job: Job, shape: int) -> list[SharedRoom]:
        """What nodes take together for a job; empty if nothing limits them."""
        return [room for entry in self.hooks.shared_rooms for room in entry.call(job, shape)]

    def closed_to(self, job: Job) -> list[Refusal]:
        """The nodes that a job may not use, for any shape."""

        def ask() -> list[Refusal]:
            found = (entry.call(job) for entry in self.hooks.job_nodes)
            return [refusal for refusal in found if refusal is not None]

        return self.memo.current("closed", job.index, ask)

    def open_to(self, job: Job) -> Mask | None:
        """The nodes that a job may use; `None` means all."""
        closed = self.closed_to(job)
        if not closed:
            return None
        mask = ~closed[0].nodes
        for refusal in closed[1:]:
            mask &= ~refusal.nodes
        return mask

    def ground_of(self, job: Job) -> Mask | None:
        """The nodes that a job may use when no node is locked and nothing of it is placed; `None` means all."""
        if not self.hooks.fixed_nodes:
            return None
        return self.memo.fixed("session", ("ground", job.index), lambda: self._ground(job))

    def _ground(self, job: Job) -> Mask | None:
        closed = [r for entry in self.hooks.fixed_nodes if (r := entry.call(job)) is not None]
        return ~np.logical_or.reduce([refusal.nodes for refusal in closed]) if closed else None

    # -- acting

    def statement(self) -> Statement:
        return Statement(self)

    def evict(self, tasks: int | Sequence[int] | Ints, beneficiary: Job, reason: str, cause: Cause) -> None:
        """Evict tasks for the benefit of a job."""
        chosen, eviction = _each(tasks), PlannedEviction(beneficiary, reason, cause)
        self.state.evict(*chosen)
        for task in chosen:
            self.state.put(self.evictions, task, eviction)

    def spare(self, tasks: int | Sequence[int]) -> None:
        """Cancel evictions of this session."""
        chosen = _each(tasks)
        self.state.spare(*chosen)
        for task in chosen:
            self.state.drop(self.evictions, task)

    def note(self, job: Job, reason: Reason) -> None:
        self.state.record(self.notes, job.index, (*self.notes.get(job.index, ()), reason))

    def clear_notes(self, job: Job) -> None:
        """Remove the noted reasons of a job."""
        self.state.drop(self.notes, job.index)

    def pass_over(self, queue: str, reason: Reason) -> None:
        """Record that a queue gets nothing more in this cycle."""
        self.state.put(self.overused, queue, reason)

    def size(self, job: Job, decision: Decision) -> None:
        """Record the size of an elastic job."""
        self.state.put(self.sizes, job.index, decision)

    @property
    def target(self) -> Job | None:
        """The elected job, if it still exists."""
        if self.elect is None or not self._is_there(self.elect.job, self.elect.uid):
            return None
        return self.job(self.snapshot.jobs.number[self.elect.job])

    @property
    def target_is_foreign(self) -> bool:
        """Whether another shard decides for the elected job: only that shard ends the election and chooses nodes."""
        scope, target = self.snapshot.scope, self.target
        return scope is not None and target is not None and not scope.jobs[target.index]

    def set_target(self, job: Job, demand: tuple[tuple[str, int], ...] = (), since: float | None = None) -> None:
        """Elect a job, for which nodes are then locked."""
        self.state.assign(self, "elect", Elect(job.key, self.now if since is None else since, job.uid, demand))

    def date_target(self) -> None:
        """Count the time of an election from now on."""
        if self.elect is not None:
            self.state.assign(self, "elect", msgspec.structs.replace(self.elect, since=self.now))

    def give_back_target(self) -> None:
        """Restore the election of a job of another shard: an own job took it in this cycle, and was then placed."""
        scope, before = self.snapshot.scope, self.elect_before
        row = None if before is None else self.snapshot.jobs.number.get(before.job)
        if self.elect is None and scope is not None and row is not None and not scope.jobs[row]:
            self.state.assign(self, "elect", before)
            self.state.assign(self, "locks", {k.node: k for k in scope.locks if self._is_for_target(k)})

    def lock(self, node: str, job: Job) -> None:
        self.state.put(self.locks, node, Lock(node, job.key, self.now, job.uid))

    def unlock(self, node: str) -> None:
        self.state.drop(self.locks, node)

    def expire_target(self, too_short: bool = False) -> None:
        """End an election, maybe because it was too short for the job, and let other jobs have their turn."""
        if self.target is not None:
            self.lost.set(LostElection(self.now, self.times_too_short(self.target.key) + too_short), self.target.key)
        self.clear_target()

    def times_too_short(self, job: str) -> int:
        """How many elections of a job were too short for it."""
        lost = self.lost.get(job)
        return 0 if lost is None else lost.times

    @property
    def lost(self) -> Remembered[LostElection]:
        """Jobs that lost their election, and when: it took too long, or they then asked for more."""
        return self.memory.of(ELECT, LOST)

    def last_round(self, plugin: str) -> float:
        """When a plugin last evicted a round of pods. A time in the future was set before the clock was set back."""
        last = self.memory.of(plugin, ROUND).get()
        return -math.inf if last is None or last.at > self.now else last.at

    def next_round(self, plugin: str, period: float) -> float:
        """When a plugin may evict a round of pods again; not after `now` if it may do so now."""
        return max(self.last_round(plugin) + period, self.now)

    def begin_round(self, plugin: str) -> None:
        """Remember that a plugin evicts a round of pods now."""
        self.memory.of(plugin, ROUND).set(Moment(self.now))

    def clear_target(self) -> None:
        self.state.assign(self, "elect", None)
        self.state.assign(self, "locks", {})

    def wake(self, at: float) -> None:
        """Ask for a cycle at this time: the decision then changes without any event."""
        if at > self.now:
            self._wake.append(at)

    @property
    def wake_at(self) -> float | None:
        """The earliest time at which a cycle is needed without any event."""
        return min(self._wake, default=None)


def _why_rests(until: float) -> str:
    often = "it or its pods changed again and again while Maar was starting it"
    return f"{often}; next try at {datetime.fromtimestamp(until, UTC):%H:%M:%S} UTC, and until then others get its room"


def _each(tasks: int | Sequence[int] | Ints) -> list[int]:
    each: list[int] = np.atleast_1d(tasks).tolist()
    return each
