"""Follows one job through the cycles of a recording.

A job runs while enough of its pods have nodes. It has ended when it disappears or all its pods have ended. Its duration
is the time that it ran: waiting and suspension depend on the recorded policy, not on the job. The duration of an
elastic job is its work, by its known speed-up, divided by its speed at the requested size.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from maar.elastic.speedup import curve
from maar.model.elastic import Elastic
from maar.model.jobs import Job, Phase
from maar.model.minimum import has_minimum
from maar.model.resources import CPU, MEMORY, is_accelerator
from maar.model.shapes import Shape
from maar.model.tasks import READY, Status, Task
from maar.sim.trace import TraceJob

OVER = (Status.SUCCEEDED, Status.FAILED)


class Life:
    """One job so far."""

    def __init__(self, job: Job, submit: float, *, was_there: bool) -> None:
        self.job = job
        self.submit = submit
        self.was_there = was_there
        """Whether it is in the first cycle."""
        self.ended = False
        self.ran = 0.0
        """Seconds."""
        self._work = 0.0
        """Seconds multiplied by the speed-up at that time."""
        self._at = self._looked = submit
        self._size = 0
        """Workers since `_at`; 0 if it does not run."""
        self._pods: frozenset[str] = frozenset()
        """UIDs of all its pods so far."""
        self._starting = 0
        """Its workers if the last plan takes effect. In shadow mode, another scheduler decides that."""
        self._most = 0
        self._shape: Shape | None = None

    @property
    def gpus(self) -> int:
        requests = self._shape.requests if self._shape is not None else ()
        return sum(amount for name, amount in requests if is_accelerator(name))

    def is_of(self, job: Job, members: Sequence[Task]) -> bool:
        """Whether a job of this name is this job: its object has the same UID, or it has a pod of this job.

        Objects and pods appear and disappear one by one, so a cycle may show a gang without its group.
        """
        return job.uid == self.job.uid or not self._pods.isdisjoint(task.uid for task in members)

    def look(self, job: Job, members: Sequence[Task], starting: Set[str], now: float) -> None:
        """Update from one cycle. `starting` are the tasks of all jobs that the plan binds."""
        self._count(now)
        self.job = job
        self._pods |= {task.uid for task in members if task.uid}
        workers = _workers(job.elastic, members)
        self._most = max(self._most, len(workers))
        if workers or job.elastic is not None:
            self._shape = job.elastic.shape if job.elastic is not None else workers[0].shape
        size = _size(job, members, workers)
        if size and not self._size:
            self._size, self._at = size, self._began(workers, now)
            self._count(now)
        self._size, self._looked = size, now
        self._starting = 0 if size else _size(job, members, workers, starting)
        # A failed job may be created again, and run again.
        self.ended = job.phase is Phase.COMPLETED or (bool(members) and all(task.status in OVER for task in members))

    def leave(self, now: float) -> None:
        """End the job: the cycle does not contain it."""
        if self._starting and not self._size:  # it ended before a cycle saw it run
            self._size, self._at = self._starting, self._looked
        self._count(now)
        self._size = self._starting = 0
        self.ended = True

    def _began(self, workers: Sequence[Task], now: float) -> float:
        """Its start since the last cycle: the start of its last pod, else the time of the decision, else now."""
        starts = [task.started for task in workers if task.status is Status.BOUND and task.started is not None]
        decided = self._looked if self._starting else now
        return min(max(max(starts, default=decided), self._looked), now)

    def _count(self, now: float) -> None:
        if self._size:
            self.ran += now - self._at
            self._work += (now - self._at) * self._speed(self._size)
        self._at = now

    def _speed(self, workers: int) -> float:
        elastic = self.job.elastic
        return float(curve(dict(elastic.speedup)).values(workers)[workers]) if elastic is not None else 1.0

    def trace_job(self) -> TraceJob:
        elastic = self.job.elastic
        if elastic is not None:
            low, high = elastic.min, elastic.max
            workers = min(max(elastic.requested, low), high)
        else:
            low = workers = high = max(self._most, 1)
        requests = dict(self._shape.requests) if self._shape is not None else {}
        per_worker = self.gpus
        return TraceJob(
            name=self.job.key,
            submit=self.submit,
            duration=self._total_work() / self._speed(workers),
            gpus=workers * per_worker,
            workers=workers,
            gpus_per_worker=per_worker,
            min=low,
            max=high,
            queue=self.job.queue,
            priority=self.job.priority,
            speedup=elastic.speedup if elastic is not None else (),
            cpu=requests[CPU] / 1000 if CPU in requests else None,
            memory=requests.get(MEMORY),
        )

    def _total_work(self) -> float:
        """Its work. If it has not ended, includes the rest by its estimate or by its promise, if it has any."""
        elastic = self.job.elastic
        if self.ended:
            return self._work
        if elastic is not None:
            return self._work + (elastic.remaining if elastic.remaining < float("inf") else 0.0)
        return max(self._work, self.job.promise or 0.0)


def _workers(elastic: Elastic | None, members: Sequence[Task]) -> Sequence[Task]:
    """Its worker pods: not launchers or masters, and only pods with accelerators if any pod has one."""
    if elastic is not None:
        return [task for task in members if task.role == elastic.role]
    with_gpus = [task for task in members if any(is_accelerator(name) for name, n in task.shape.requests if n)]
    return with_gpus or members


def _size(job: Job, members: Sequence[Task], workers: Sequence[Task], starting: Set[str] = frozenset()) -> int:
    """Its running workers, including starting tasks; 0 if they are too few to run."""
    bound = sum(task.status is Status.BOUND or task.key in starting for task in workers)
    if job.elastic is not None and bound < job.elastic.min:
        return 0
    done = [task for task in members if task.status in READY or task.key in starting]
    return bound if has_minimum(job, done) else 0
