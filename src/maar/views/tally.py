"""What all views need of one snapshot, counted once with numpy: states of jobs, and amounts by job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

from maar.model.fitting import Mode
from maar.model.jobs import Job, OnHold, Phase
from maar.model.minimum import lacking, with_minimum
from maar.model.plan import Plan, Wait
from maar.model.reasons import Reason
from maar.model.reserved import Reserved, reserved_in
from maar.model.resources import CPU, Ints, Mask, total
from maar.model.snapshot import Snapshot
from maar.model.tasks import READY, Status
from maar.shards.sharing import Sharing
from maar.shards.wants import Want
from maar.views.records import Amounts, OwnerView, State
from maar.views.sight import Sight

STATES = tuple(State)
AWAITED = tuple(STATES.index(state) for state in (State.WAITING, State.STARTING, State.SUSPENDED))
"""The numbers of the states of jobs that may still start."""
ENDED = (Status.SUCCEEDED, Status.FAILED)


class Tally:
    """One snapshot with its plan, counted for views. It never changes the snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        plan: Plan,
        now: float,
        waits: Mapping[str, Wait] | None = None,
        owners: Mapping[str, OwnerView] | None = None,
        sharing: Sharing | None = None,
    ) -> None:
        """`waits` has the reasons of all waiting jobs, if the plan has only those of some.

        `sharing`: several schedulers share the cluster. The plan is still that of one Maar.
        """
        self.snapshot = snapshot
        self.plan = plan
        self.now = now
        self.waits: Mapping[str, Wait] = {wait.job: wait for wait in plan.waiting} if waits is None else waits
        self.owners: Mapping[str, OwnerView] = owners or {}
        self.sharing = sharing

    @cached_property
    def wants(self) -> Mapping[str, Want]:
        """The wants of shards that stand, by job."""
        return {} if self.sharing is None else self.sharing.standing(self.now)

    def reasons(self, row: int) -> tuple[Reason, ...]:
        """Why a job waits; first that its shard borrows nodes for it, which one Maar would not have to."""
        job = self.snapshot.jobs.jobs[row]
        wait = self.waits.get(job.key)
        return (*self.borrowing(row), *(() if wait is None else wait.reasons))

    def borrowing(self, row: int) -> tuple[Reason, ...]:
        """The reason that a waiting job borrows nodes, if its shard says so."""
        job = self.snapshot.jobs.jobs[row]
        want = self.wants.get(job.key)
        if self.sharing is None or want is None or want.uid != job.uid or not self.snapshot.jobs.waits[row]:
            return ()
        return (self.sharing.why(want, job.waits_since),)

    @cached_property
    def locked(self) -> frozenset[str]:
        """The nodes that are locked for a job."""
        return frozenset(lock.node for lock in self.snapshot.cluster.locks)

    @cached_property
    def reserved(self) -> Ints:
        """The room on each node that is reserved for pods of gangs that do not exist yet."""
        snapshot = self.snapshot
        found = np.zeros_like(snapshot.nodes.allocatable)
        for reserved in self._reserved.values():
            for place in reserved.places:
                if place.node in snapshot.nodes.row:
                    requests = snapshot.shapes.requests[snapshot.shapes.number[place.shape]]
                    found[snapshot.nodes.row[place.node]] += place.count * requests
        return found

    @cached_property
    def _reserved(self) -> dict[int, Reserved]:
        """The reserved room of jobs, by row."""
        jobs, found = self.snapshot.jobs, reserved_in(self.snapshot.cluster.facts)
        rows = ((jobs.number.get(key, -1), uid, of) for (key, uid), of in found.items())
        return {row: of for row, uid, of in rows if row >= 0 and jobs.jobs[row].uid == uid}

    @cached_property
    def devices(self) -> list[int]:
        """The axes of the accelerators; that of CPU where there are none."""
        axes = self.snapshot.axes
        return list(axes.accelerators) or [i for i, name in enumerate(axes.names) if name == CPU]

    @cached_property
    def free(self) -> Ints:
        """The devices that are free on each node."""
        free: Ints = self.snapshot.free(Mode.IDLE)[:, self.devices].sum(axis=1)
        return free

    def amounts(self, row: Ints) -> Amounts:
        return {name: int(x) for name, x in zip(self.snapshot.axes.names, row.tolist(), strict=True) if x}

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """Namespaces with jobs, or named by a queue."""
        return frozenset(job.namespace for job in self.snapshot.jobs.jobs).union(
            *(queue.namespaces or () for queue in self.snapshot.queues.queues)
        )

    @cached_property
    def is_foreign(self) -> Mask:
        """Jobs of pods that belong to another scheduler, or to their node: they are in no list of jobs."""
        tasks, n = self.snapshot.tasks, len(self.snapshot.jobs)
        theirs = np.bincount(tasks.job[tasks.foreign | tasks.resident], minlength=n)
        return np.asarray((theirs > 0) & (theirs == self.snapshot.jobs.sizes))

    @cached_property
    def states(self) -> npt.NDArray[np.int8]:
        """The state of each job, as its place in `STATES`."""
        jobs, tasks = self.snapshot.jobs, self.snapshot.tasks
        n = len(jobs)
        ended = np.bincount(tasks.job[np.isin(tasks.status, ENDED)], minlength=n)
        bound = np.bincount(tasks.job[tasks.status == Status.BOUND], minlength=n)
        found = np.full(n, STATES.index(State.WAITING), dtype=np.int8)
        found[with_minimum(self.snapshot, nominated=True) & (jobs.nominated > 0)] = STATES.index(State.STARTING)
        for row, reserved in self._reserved.items():
            there = [t for t in self.snapshot.tasks_of(row) if t.status in (*READY, Status.NOMINATED)]
            if lacking(jobs.jobs[row], there) <= sum(place.count for place in reserved.places):
                found[row] = STATES.index(State.STARTING)
        found[with_minimum(self.snapshot) & (bound > 0)] = STATES.index(State.RUNNING)
        done = np.array([job.phase is Phase.COMPLETED for job in jobs.jobs], dtype=np.bool_)
        found[((ended == jobs.sizes) & (jobs.sizes > 0)) | done] = STATES.index(State.FINISHED)
        for row in jobs.elastic:
            job = jobs.jobs[row]
            if job.is_suspended and not bound[row]:
                found[row] = STATES.index(_without_pods(job))
        broken = np.array([bool(job.broken) for job in jobs.jobs], dtype=np.bool_)
        found[(broken | jobs.refused) & (bound == 0)] = STATES.index(State.INVALID)
        return found

    def state(self, row: int) -> State:
        return STATES[int(self.states[row])]

    @cached_property
    def alive(self) -> Ints:
        """What the pods of each job request that have not ended."""
        tasks = self.snapshot.tasks
        return self._by_job(~np.isin(tasks.status, ENDED)) + self._to_come

    @cached_property
    def pending(self) -> Ints:
        """What the pods of each job request that have no node."""
        tasks = self.snapshot.tasks
        return self._by_job(np.isin(tasks.status, (Status.PENDING, Status.NOMINATED, Status.BLOCKED))) + self._to_come

    @cached_property
    def _to_come(self) -> Ints:
        """What jobs that wait without pods will request at least: elastic jobs, and groups that are not admitted.

        Pods of suspended gangs of fixed size are tasks.
        """
        snapshot = self.snapshot
        jobs, shapes = snapshot.jobs, snapshot.shapes
        table: Ints = np.zeros((len(jobs), len(snapshot.axes)), dtype=np.int64)
        for row in jobs.active:
            job = jobs.jobs[row]
            if job.is_elastic and job.elastic is not None and job.is_suspended:
                table[row] = job.elastic.min * shapes.requests[shapes.number[job.elastic.shape]]
                for shape in job.elastic.beside:
                    table[row] += shapes.requests[shapes.number[shape]]
            elif not jobs.sizes[row] and job.min_resources and job.phase is not Phase.COMPLETED:
                table[row] = snapshot.axes.row(job.min_resources)
        return table

    def _by_job(self, chosen: Mask) -> Ints:
        snapshot = self.snapshot
        table: Ints = np.zeros((len(snapshot.jobs), len(snapshot.axes)), dtype=np.int64)
        np.add.at(table, snapshot.tasks.job[chosen], snapshot.shapes.requests[snapshot.tasks.shape[chosen]])
        return table

    def total(self, rows: Ints) -> Amounts:
        return {name: x for name, x in zip(self.snapshot.axes.names, total(rows), strict=True) if x}

    def seen(self, sight: Sight) -> Mask:
        """The jobs that a viewer may see."""
        if sight.everything:
            return np.ones(len(self.snapshot.jobs), dtype=np.bool_)
        return np.array([sight.of(job.key) for job in self.snapshot.jobs.jobs], dtype=np.bool_)

    def by_state(self, chosen: Mask) -> dict[str, int]:
        counts = np.bincount(self.states[chosen & ~self.is_foreign], minlength=len(STATES)).tolist()
        return {state.value: count for state, count in zip(STATES, counts, strict=True)}


def _without_pods(job: Job) -> State:
    """The state of a suspended job: what keeps it from starting is its reason, as that of any other job."""
    if job.on_hold is OnHold.STOP:
        return State.SUSPENDED
    assert job.elastic is not None
    kept = sum(count for _, count in job.elastic.reserved)
    return State.STARTING if kept and kept + len(job.elastic.beside) >= lacking(job, ()) else State.WAITING


def by_status(statuses: npt.NDArray[np.int8]) -> dict[str, int]:
    """The number of pods by status, without zeros."""
    counts = Counter(statuses.tolist())
    return {Status(status).name.lower(): counts[status] for status in sorted(counts)}
