"""A session: one cycle's view of the cluster, in which actions act and plugins are asked.

It is opened on a snapshot with a configuration, lives for one cycle and keeps nothing for the next: what the next one
must know leaves in the plan. Actions change it only through its state's verbs inside statements; plugins are reached
through `hooks`. The plan is read off the state at the end, by comparison with the snapshot.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import msgspec
import numpy as np

from maar.config.config import Config
from maar.model.jobs import Job, Phase
from maar.model.plan import Cause, Elect, Lock
from maar.model.queues import Queue
from maar.model.reasons import Reason
from maar.model.resources import Ints, Mask, total
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status, among
from maar.session.extension import Plugin
from maar.session.hooks import Hooks, Limit, Rejection
from maar.session.memo import Memo
from maar.session.register import Register
from maar.session.state import State
from maar.session.statement import Statement
from maar.session.view import View


class Decision(msgspec.Struct, frozen=True):
    """How many workers an elastic job gets, how many were planned, and why."""

    size: int
    planned: int
    why: str
    forgive: bool = False
    """It was promoted: what it has had counts no more for its place in the queues."""
    pool: str = ""


class Eviction(NamedTuple):
    """Why a task was sent away, and for which job."""

    beneficiary: Job
    reason: str
    cause: Cause


_NONE: Ints = np.zeros(0, dtype=np.int64)


class Session:
    """One cycle.

    What it remembers of the actions (evictions, sizes, notes, admissions, the election) goes through the journal, so
    a rollback restores it with the state. Only the methods of the session write it.
    """

    CACHES: ClassVar[frozenset[str]] = frozenset({"memo", "_views", "_wake", "depth"})
    """Attributes that a rollback does not restore. A time to wake at holds whether or not what was tried is kept."""

    def __init__(self, snapshot: Snapshot, config: Config, now: float) -> None:
        self.snapshot = snapshot
        self.config = config
        self.now = now
        self.state = State(snapshot)
        self.hooks = Hooks()
        self.depth = 0
        """How many statements are open."""
        self.total: list[int] = total(snapshot.nodes.allocatable)
        """What all nodes have, as Python integers."""
        self.memo = Memo(self.state)
        """What other modules have computed."""
        self.admitted: dict[int, Job] = {}
        """Job row to the job."""
        self.evictions: dict[int, Eviction] = {}
        self.notes: dict[int, tuple[Reason, ...]] = {}
        """Job row to what actions found out about why it waits."""
        self.overused: dict[str, Reason] = {}
        """Queues that were passed over in this cycle, and why."""
        self.sizes: dict[int, Decision] = {}
        """Job row to what `resize` decided for it."""
        self.elect: Elect | None = snapshot.cluster.elect
        self.locks: dict[str, Lock] = {k.node: k for k in snapshot.cluster.locks}
        self.expired: dict[str, None] = {}
        """Jobs that lost their election because it took too long."""
        self._wake: list[float] = []
        self._views: dict[tuple[int, bool], View] = {}

    # -- opening

    def open(self) -> None:
        """Build this session's plugins and let them register."""
        for tier, options in enumerate(self.config.tiers):
            for option in options:
                plugin: Plugin = option.build()
                plugin.open(self, Register(self.hooks, option.name, tier, option.flags))
        if not self.hooks.target_job:
            self.clear_target()

    # -- who is who

    def job(self, index: int) -> Job:
        """A job by its row."""
        return self.snapshot.jobs.jobs[index]

    def queue_of(self, job: Job) -> Queue:
        """The queue that pays for a job."""
        return self.snapshot.queues.queues[int(self.snapshot.jobs.queue[job.index])]

    def active(self) -> list[Job]:
        """Jobs that wait for something and can be looked at: whole, in an open queue that makes sense."""
        rows = self.snapshot.jobs.active
        jobs = [self.job(i) for i in rows if i not in self.snapshot.resting]
        return [job for job in jobs if self.trouble(job) is None]

    def elastic(self) -> list[Job]:
        """Jobs whose workers may become more and fewer."""
        return [self.job(i) for i in self.snapshot.jobs.elastic]

    def trouble(self, job: Job) -> Reason | None:
        """Why a job cannot be looked at at all, whatever the plugins say."""
        if job.broken:
            return Reason("maar", "Invalid", job.broken, since=self.waiting_since(job))
        if job.settles is not None and self.now < job.settles:
            self.wake(job.settles)
            what = "waits for more of its pods to be created, since nothing says how many there will be"
            return Reason("maar", "Settling", what, since=self.waiting_since(job))
        queue = int(self.snapshot.jobs.queue[job.index])
        if queue < 0:
            known = f"queue `{job.queue}` does not exist"
            return Reason("maar", "QueueNotFound", known, queue=job.queue, since=self.waiting_since(job))
        if self.snapshot.queues.broken[queue]:
            why = f"queue `{job.queue}`: {self.snapshot.queues.broken[queue]}"
            return Reason("maar", "QueueInvalid", why, queue=job.queue, since=self.waiting_since(job))
        return None

    def is_pending(self, job: Job) -> bool:
        """Whether its group has not been admitted, nor in this session."""
        return job.phase is Phase.PENDING and job.index not in self.admitted

    def admit(self, job: Job) -> None:
        """Let its operator create its pods."""
        self.state.put(self.admitted, job.index, job)
        self.clear_notes(job)
        for entry in self.hooks.job_enqueued:
            entry.call(job)

    def waiting_since(self, job: Job) -> float:
        """When it began to wait."""
        return job.created if job.waiting_since is None else job.waiting_since

    def tasks_of(self, job: Job, *statuses: Status) -> Ints:
        """Its tasks in some statuses, by number."""
        first, last = self.snapshot.jobs.members.span(job.index)
        if first == last:
            return _NONE
        found: Ints = among(statuses).take(self.state.status[first:last]).nonzero()[0]
        found += first
        return found

    def waits(self, job: Job) -> bool:
        """Whether it has tasks without a node, promised one or not."""
        return bool(self.state.job_pending[job.index] + self.state.job_nominated[job.index])

    def promised(self, job: Job) -> Ints:
        """Its tasks that wait for promised room."""
        return self.tasks_of(job, Status.NOMINATED) if self.state.job_nominated[job.index] else _NONE

    # -- nodes and shapes

    def rejections(self, shape: int) -> list[tuple[str, Rejection]]:
        """The nodes that a shape may not use, by plugin and cause."""

        def ask() -> list[tuple[str, Rejection]]:
            found = ((entry.plugin, rejection) for entry in self.hooks.predicates for rejection in entry.call(shape))
            return [(plugin, rejection) for plugin, rejection in found if rejection.nodes.any()]

        return self.memo.fixed("rejections", shape, ask)

    def view(self, shape: int, later: bool = False) -> View:
        """A shape against all nodes, up to date."""
        later = later and self.state.soft
        view = self._views.get((shape, later))
        if view is None:
            view = self._views[shape, later] = View(self, shape, later)
            return view
        return view.refresh()

    def limits(self, shape: int, later: bool) -> list[tuple[str, Limit]]:
        """What pods already placed leave for a shape, where they matter at all."""
        found = ((e.plugin, e.call(shape, later)) for e in self.hooks.limits)
        return [(plugin, limit) for plugin, limit in found if limit is not None]

    def closed_to(self, job: Job) -> list[tuple[str, Rejection]]:
        """The nodes that one job may not use, whatever its shapes."""
        found = ((e.plugin, e.call(job)) for e in self.hooks.job_nodes)
        return [(plugin, rejection) for plugin, rejection in found if rejection is not None]

    def open_to(self, job: Job) -> Mask | None:
        """The nodes that one job may use, `None` for all."""
        closed = self.closed_to(job)
        if not closed:
            return None
        mask = ~closed[0][1].nodes
        for _, rejection in closed[1:]:
            mask &= ~rejection.nodes
        return mask

    # -- acting

    def statement(self) -> Statement:
        """Begin a transaction."""
        return Statement(self)

    def evict(self, task: int, beneficiary: Job, reason: str, cause: Cause) -> None:
        """Send a task away for a job."""
        self.state.evict(task)
        self.state.put(self.evictions, task, Eviction(beneficiary, reason, cause))

    def spare(self, task: int) -> None:
        """Take an eviction back."""
        self.state.spare(task)
        self.state.drop(self.evictions, task)

    def note(self, job: Job, reason: Reason) -> None:
        """Add to what is known about why a job waits."""
        self.state.put(self.notes, job.index, (*self.notes.get(job.index, ()), reason))

    def clear_notes(self, job: Job) -> None:
        """Forget why a job waited."""
        self.state.drop(self.notes, job.index)

    def pass_over(self, queue: str, reason: Reason) -> None:
        """Give a queue nothing more in this cycle."""
        self.state.put(self.overused, queue, reason)

    def size(self, job: Job, decision: Decision) -> None:
        """Decide the size of an elastic job."""
        self.state.put(self.sizes, job.index, decision)

    def set_target(self, job: str) -> None:
        """Elect a job, for which nodes are locked from now on."""
        self.state.assign(self, "elect", Elect(job, self.now))

    def lock(self, node: str, job: str) -> None:
        """Lock a node for the elected job."""
        self.state.put(self.locks, node, Lock(node, job, self.now))

    def expire_target(self) -> None:
        """End an election because it took too long."""
        if self.elect is not None:
            self.state.put(self.expired, self.elect.job, None)
        self.clear_target()

    def clear_target(self) -> None:
        """Elect no job and lock no node."""
        self.state.assign(self, "elect", None)
        self.state.assign(self, "locks", {})

    def wake(self, at: float) -> None:
        """Time alone changes the answer at that moment."""
        if at > self.now:
            self._wake.append(at)

    @property
    def wake_at(self) -> float | None:
        """The earliest such moment."""
        return min(self._wake, default=None)
