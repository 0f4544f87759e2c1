"""One job's life, followed through the cycles of a recording.

A job runs while enough of its pods have nodes, and has ended when it is seen no more or all its pods have ended. Its
duration is the time that it ran: what it waited, and what it was stopped for, belongs to the policy of that week and
not to the job. Of an elastic job the work is counted, by the speed-up that was known of it, and divided by its speed at
the requested size.
"""

from __future__ import annotations

from collections.abc import Sequence

from maar.elastic.speedup import curve
from maar.model.elastic import Elastic
from maar.model.jobs import Job, Phase
from maar.model.resources import CPU, MEMORY, is_accelerator
from maar.model.shapes import Shape
from maar.model.tasks import Status, Task
from maar.sim.trace import TraceJob

OVER = (Status.SUCCEEDED, Status.FAILED)


class Life:
    """What has been seen of a job so far."""

    def __init__(self, job: Job, submit: float, *, was_there: bool) -> None:
        self.job = job
        self.submit = submit
        self.was_there = was_there
        """In the first cycle already."""
        self.ended = False
        self.ran = 0.0
        """Seconds."""
        self._work = 0.0
        """Seconds, each times the speed-up then."""
        self._at = self._looked = submit
        self._size = 0
        """Workers since `_at`; 0 while it does not run."""
        self._most = 0
        self._shape: Shape | None = None

    @property
    def gpus(self) -> int:
        """Of one worker."""
        requests = self._shape.requests if self._shape is not None else ()
        return sum(amount for name, amount in requests if is_accelerator(name))

    def look(self, job: Job, members: Sequence[Task], now: float) -> None:
        """See how it stands."""
        self._count(now)
        self.job = job
        workers = _workers(job.elastic, members)
        self._most = max(self._most, len(workers))
        if workers or job.elastic is not None:
            self._shape = job.elastic.shape if job.elastic is not None else workers[0].shape
        size = _size(job, members, workers)
        if size and not self._size:
            self._size, self._at = size, min(max(_began(workers, now), self._looked), now)
            self._count(now)
        self._size, self._looked = size, now
        # One that failed may be made anew, and runs again.
        self.ended = job.phase is Phase.COMPLETED or (bool(members) and all(task.status in OVER for task in members))

    def leave(self, now: float) -> None:
        """It is seen no more."""
        self._count(now)
        self._size = 0
        self.ended = True

    def _count(self, now: float) -> None:
        """Add the time since it was last counted."""
        if self._size:
            self.ran += now - self._at
            self._work += (now - self._at) * self._speed(self._size)
        self._at = now

    def _speed(self, workers: int) -> float:
        elastic = self.job.elastic
        return float(curve(dict(elastic.speedup)).values(workers)[workers]) if elastic is not None else 1.0

    def trace_job(self) -> TraceJob:
        """What a trace says of it."""
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
            duration=self._foretold() / self._speed(workers),
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

    def _foretold(self) -> float:
        """Its work; if it has not ended, with what is left by its measurements or by its promise, if it has any."""
        elastic = self.job.elastic
        if self.ended:
            return self._work
        if elastic is not None:
            return self._work + (elastic.remaining if elastic.remaining < float("inf") else 0.0)
        return max(self._work, self.job.promise or 0.0)


def _workers(elastic: Elastic | None, members: Sequence[Task]) -> Sequence[Task]:
    """Its pods without those beside them that only launch or lead; those with accelerators, if any has one."""
    if elastic is not None:
        return [task for task in members if task.role == elastic.role]
    with_gpus = [task for task in members if any(is_accelerator(name) for name, n in task.shape.requests if n)]
    return with_gpus or members


def _began(workers: Sequence[Task], now: float) -> float:
    """When the last of them started, if their kubelets said so."""
    starts = [task.started for task in workers if task.status is Status.BOUND and task.started is not None]
    return max(starts, default=now)


def _size(job: Job, members: Sequence[Task], workers: Sequence[Task]) -> int:
    """Workers that it runs with; 0 if it has too few to run."""
    bound = sum(task.status is Status.BOUND for task in workers)
    if job.elastic is not None:
        return bound if bound >= job.elastic.min else 0
    done = sum(task.status in (Status.BOUND, Status.SUCCEEDED) for task in members)
    return bound if done >= job.min_member else 0
