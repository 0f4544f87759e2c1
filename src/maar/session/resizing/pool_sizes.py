"""How many workers each elastic job of a pool gets: the algorithm's answer, realised on nodes.

    1 brakes     a pool that changed recently keeps its sizes; so does a job that changed recently
    2 capacity   what the pool's nodes take without elastic workers, and what each queue may have
    3 plan       run the algorithm, separately for queues with limits (`shares`)
    4 worth      drop changes that cost more than they gain
    5 make       shrink first, then grow into free or releasing room; cap jobs that did not fit, and repeat from 3

An invalid plan changes nothing: every job keeps its size.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from msgspec.structs import replace

from maar.elastic.allocate import InvalidPlan, allocate, promoted, wake_after
from maar.elastic.damping import Damping, damped
from maar.elastic.jobs import Jobs
from maar.model import fitting
from maar.model.codes import GANG_WAITS
from maar.model.fitting import Mode
from maar.model.jobs import Job
from maar.model.queues import closed
from maar.model.reasons import Reason
from maar.model.resources import Floats, Ints, Mask
from maar.model.tasks import Status
from maar.model.words import count
from maar.session import never
from maar.session.eviction.protection import is_beyond
from maar.session.resizing.elastic_columns import columns
from maar.session.resizing.migrating import migrate
from maar.session.resizing.packing import set_packed
from maar.session.resizing.pools import SharedPool
from maar.session.resizing.shares import Ground, Shares, caps_of_grounds, caps_of_queues, is_closed
from maar.session.resizing.waiting_gangs import WaitingGangs
from maar.session.resizing.workers import elastic_of, is_settled, last_change, old_pods, set_size, worker_shape
from maar.session.session import Decision, Session

ROUNDS = 8
"""How often the algorithm runs again because its sizes do not fit on nodes; after that, the sizes that fit are used."""


class PoolSizes:
    """The sizes of one pool in one session."""

    def __init__(self, session: Session, pool: SharedPool) -> None:
        self._session = session
        self._pool = pool
        self._option = pool.option
        self._set_size = set_packed if pool.option.pack else set_size
        self._jobs = pool.jobs
        self._table: Jobs = columns(session, pool.jobs, self._restart())
        self._now: Ints = np.array([elastic_of(job).now for job in pool.jobs], dtype=np.int64)
        self._planned: Ints = self._now.copy()

    def run(self) -> None:
        """Decide the sizes and apply them to the session."""
        until = self._paused_until()
        if until is not None:
            self._session.wake(until)
            rule = f"sizes in pool `{self._option.name}` change at most every {self._option.rate_limit:g} s"
            self._decide(self._now, f"{rule}; next change at {datetime.fromtimestamp(until, UTC):%H:%M:%S} UTC")
            return
        try:
            self._plan()
        except InvalidPlan as error:
            for job in self._jobs:
                self._session.note(job, self._reason(job, "InvalidPlan", f"sizes are not changed: {error}"))
            self._decide(self._now, f"sizes are not changed: {error}")

    # -- 1 brakes

    def _paused_until(self) -> float | None:
        """The time until which a recently changed pool keeps its sizes."""
        last = self._session.snapshot.cluster.resized.get(self._option.name)
        if last is None or not last < self._session.now < last + self._option.rate_limit:
            return None
        return last + self._option.rate_limit

    def _frozen(self, gpus: int, shares: Shares) -> Mask:
        """Jobs whose size changed recently: they keep it, unless the pool no longer has room for all of them."""
        frozen = np.zeros(len(self._jobs), dtype=np.bool_)
        for row, job in enumerate(self._jobs):
            last = last_change(self._session, job)
            ends = -np.inf if last is None else last + self._option.minimum_time
            within = elastic_of(job).min <= self._now[row] <= elastic_of(job).max
            if self._now[row] and within and last != self._session.now and self._session.now < ends:
                frozen[row] = True
                self._session.wake(ends)
        frozen &= ~shares.beyond(np.where(frozen, self._now, 0))
        return frozen if (self._now * self._table.gpus)[frozen].sum() <= gpus else np.zeros_like(frozen)

    def _restart(self) -> Floats:
        """Seconds that a change costs each job. A pool with restart 0 disables this brake for all jobs."""
        if not self._option.restart:
            return np.zeros(len(self._jobs))
        own = [None if is_beyond(self._session, job.index) else elastic_of(job).restart for job in self._jobs]
        return np.array([self._option.restart if r is None else r for r in own], dtype=np.float64)

    # -- 2 capacity

    def _capacity(self) -> tuple[int, Shares]:
        """GPUs (or worker slots) of the pool for elastic workers, and what each queue may have of them.

        Counted as if the pool had no elastic workers. Room that other jobs use or are nominated for, and
        cordoned nodes, are excluded.
        """
        session, state, shapes = self._session, self._session.state, self._session.snapshot.shapes
        free = session.capacity.free(Mode.LATER)
        mine: dict[int, Ints] = {}
        for job in self._jobs:
            tasks = session.tasks_of(job, Status.BOUND, Status.NOMINATED)
            requests = shapes.requests[session.snapshot.tasks.shape[tasks]]
            session.capacity.give(free, tasks)
            queue = int(session.snapshot.jobs.queue[job.index])
            mine[queue] = mine.get(queue, np.zeros(free.shape[1], dtype=np.int64)) + requests.sum(axis=0)
            for kept in state.reserved.get(job.index, ()):
                np.add.at(free, kept.rows, kept.counts[:, None] * shapes.requests[kept.shape])
                mine[queue] = mine[queue] + kept.counts.sum() * shapes.requests[kept.shape]
        job_shapes = [worker_shape(session, job) for job in self._jobs]
        kinds = self._kinds(job_shapes)
        grounds = {}
        for kind, job, shape, gpus in zip(kinds, self._jobs, job_shapes, self._table.gpus.tolist(), strict=True):
            if kind not in grounds:
                grounds[kind] = self._ground(job, shape, gpus, free)
        gpus = int(np.maximum.reduce([ground.gpus for ground in grounds.values()]).sum())
        caps = [*caps_of_queues(session, self._jobs, mine, gpus), *caps_of_grounds(kinds, grounds, gpus)]
        return gpus, Shares(caps, self._table.gpus, shapes.requests[job_shapes])

    def _kinds(self, shapes: list[int]) -> list[int]:
        """A number for each job: equal if workers have the same shape and may use the same nodes."""
        numbers: dict[tuple[int, bytes], int] = {}
        grounds = (self._session.ground_of(job) for job in self._jobs)
        kinds = [(s, b"" if g is None else g.tobytes()) for s, g in zip(shapes, grounds, strict=True)]
        return [numbers.setdefault(kind, len(numbers)) for kind in kinds]

    def _ground(self, job: Job, shape: int, width: int, free: Ints) -> Ground:
        """Where workers of a job can run, and how many GPUs or slots are free for them there."""
        snapshot = self._session.snapshot
        empty = self._session.capacity.fits(shape, Mode.EMPTY)
        nodes = self._pool.nodes & (empty > 0)
        if (ground := self._session.ground_of(job)) is not None:
            nodes &= ground
        fits = np.minimum(fitting.count(free, snapshot.shapes.requests[shape]), empty) * nodes
        return Ground(bool(snapshot.shapes.gpus[shape]), nodes, fits * width)

    # -- 3 plan

    def _plan(self) -> None:
        gpus, shares = self._capacity()
        most = self._most()
        frozen = self._frozen(gpus, shares)
        target = self._now
        least_first = False
        self._settled = np.array([is_settled(self._session, job) for job in self._jobs], dtype=np.bool_)
        for round_ in range(ROUNDS):
            target = self._ask(gpus, shares, most, frozen)
            if round_ == 0:
                self._planned = target
            sizes = self._worth(target, gpus, shares)
            with self._session.statement() as statement:
                reached = self._make(sizes, least_first)
                if round_ == ROUNDS - 1 or (reached == sizes).all():
                    reached = np.where(reached < self._table.min, 0, reached)
                    self._mend(reached)
                    statement.commit()
                    break
            if not least_first and (reached < self._table.min)[sizes > 0].any():
                least_first = True  # growth may have used the minimum of another job: repeat, minimums first
                continue
            short = reached < sizes
            most[short] = np.where(reached < self._table.min, 0, reached)[short]
        self._decide(reached, f"{self._option.algorithm.name} in pool `{self._option.name}`")
        self._wake(reached)
        if self._option.migrate and (reached == self._now).all():
            migrate(self._session, self._pool, self._table, self._restart())

    def _most(self) -> Ints:
        """The largest size of each job now: no growth in a closed queue, nor into room that a gang waits for."""
        most, gangs = self._table.max.copy(), WaitingGangs(self._session, self._pool.nodes)
        for row, job in enumerate(self._jobs):
            if is_closed(self._session, job):
                most[row] = min(most[row], self._now[row])
                if not self._now[row]:
                    self._session.note(job, closed("resize", job.queue))
                continue
            gang = gangs.ahead_of(job)
            if gang is not None:
                most[row] = min(most[row], self._now[row])
                what = f"room is left for gang `{gang.key}`, which is waiting for it"
                if not self._now[row]:
                    lasting = "room is left for a gang that is waiting for it"
                    self._session.note(job, replace(self._reason(job, GANG_WAITS.name, what), lasting=lasting))
        return most

    def _ask(self, gpus: int, shares: Shares, most: Ints, frozen: Mask) -> Ints:
        """The sizes from the algorithm, with each limited queue within its limit."""
        target = np.where(frozen, self._now, 0)
        left = gpus - int((target * self._table.gpus).sum())
        bounded = self._table.bounded(max=np.minimum(most, self._table.max))
        shares.fill(target, lambda rows, room: self._allocate(bounded.only(rows), room), ~frozen, left)
        return target

    def _allocate(self, jobs: Jobs, gpus: int) -> Ints:
        return allocate(self._option.algorithm, jobs, gpus, self._option.arguments)

    # -- 4 worth

    def _worth(self, target: Ints, gpus: int, shares: Shares) -> Ints:
        damping = Damping(self._option.hysteresis, self._option.horizon)
        restart = np.zeros(len(self._jobs)) if self._option.algorithm.weighs_restarts else self._restart()
        sizes = damped(self._table, self._now, target, gpus, restart, damping)
        sizes = np.where(shares.beyond(sizes), np.minimum(sizes, target), sizes)
        # A job that cannot be paused and has started keeps its minimum.
        stays = [not elastic_of(job).pausable and now > 0 for job, now in zip(self._jobs, self._now, strict=True)]
        return np.where(np.array(stays, dtype=np.bool_) & (sizes == 0), self._table.min, sizes)

    # -- 5 make

    def _make(self, sizes: Ints, least_first: bool) -> Ints:
        """Shrink first, then grow by priority and worker size: the sizes that the jobs reach.

        `least_first`: starting jobs get their minimum before any job grows.
        """
        reached = sizes.copy()
        grows = sizes > self._now
        for row in np.flatnonzero(~grows & (sizes < self._now)).tolist():
            self._set_size(self._session, self._jobs[row], int(sizes[row]), self._pool.nodes)
        table = self._table
        order = np.lexsort((table.rank, table.submit, -table.gpus, -table.priority))
        for row in order.tolist() if least_first else ():
            if sizes[row] and self._now[row] < table.min[row]:
                self._set_size(self._session, self._jobs[row], int(table.min[row]), self._pool.nodes)
        for row in order.tolist():
            if sizes[row] and not (self._settled[row] and sizes[row] == self._now[row]):
                reached[row] = self._set_size(self._session, self._jobs[row], int(sizes[row]), self._pool.nodes)
        return reached

    def _mend(self, reached: Ints) -> None:
        """Give nothing to jobs that did not reach their minimum in the last round."""
        for row in np.flatnonzero(reached == 0).tolist():
            set_size(self._session, self._jobs[row], 0, self._pool.nodes)

    def _wake(self, sizes: Ints) -> None:
        after = wake_after(self._option.algorithm, self._table, sizes, self._option.arguments)
        if after is not None:
            self._session.wake(self._session.now + after)

    # -- what comes out

    def _decide(self, sizes: Ints, why: str) -> None:
        forgiven = promoted(self._option.algorithm, self._table, self._option.arguments)
        for row, job in enumerate(self._jobs):
            size, planned, because = int(sizes[row]), int(self._planned[row]), why
            if size and size == self._now[row] and elastic_of(job).keeps:
                because = f"keeps its size for now: {elastic_of(job).keeps}"
            if size and (leaving := old_pods(self._session, job)) is not None:
                # Its room stays reserved for later actions of this session.
                size, because = 0, leaving.message
                self._session.note(job, leaving)
            decided = Decision(size, planned, because, bool(forgiven[row]), self._option.name)
            self._session.size(job, decided)
            if not size and job.index not in self._session.notes:
                self._session.note(job, self._none(job, row))

    def _none(self, job: Job, row: int) -> Reason:
        """Why a job gets no workers: also whether its pool never can hold it."""
        reason = self._reason(job, "NoWorkers", self._why_none(job, row))
        shape, least = worker_shape(self._session, job), elastic_of(job).min
        return never.by_pool(self._session, shape, least, self._pool.nodes, self._option.name, reason)

    def _why_none(self, job: Job, row: int) -> str:
        elastic = elastic_of(job)
        gpus = int(self._table.gpus[row])
        unit = "GPU" if self._session.snapshot.shapes.gpus[worker_shape(self._session, job)] else "slot"
        each = " each" if elastic.min > 1 else ""
        asks = f"needs at least {count(elastic.min, 'worker')} with {count(gpus, unit)}{each}"
        how = self._option.algorithm.name
        return f"{asks}: `{how}` gives it none in pool `{self._option.name}` now"

    def _reason(self, job: Job, code: str, what: str) -> Reason:
        return Reason("resize", code, what, queue=job.queue)
