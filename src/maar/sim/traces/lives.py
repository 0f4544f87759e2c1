"""One job's life, followed through the cycles of a recording.

A job runs while enough of its pods have nodes, and has ended when it is seen no more or all its pods have ended. Its
duration is the time that it ran: what it waited, and what it was stopped for, belongs to the policy of that week and
not to the job. Of an elastic job the work is counted, by the speed-up that was known of it, and divided by its speed at
the requested size.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

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
        self._pods: frozenset[str] = frozenset()
        """Those that it had, by uid."""
        self._starting = 0
        """Workers with which it will run if the last plan is carried out, which in shadow mode is another's affair."""
        self._most = 0
        self._shape: Shape | None = None

    @property
    def gpus(self) -> int:
        """Of one worker."""
        requests = self._shape.requests if self._shape is not None else ()
        return sum(amount for name, amount in requests if is_accelerator(name))

    def is_of(self, job: Job, members: Sequence[Task]) -> bool:
        """Whether a job of that name is still this one: it has its object, or pods that this one had.

        Objects and pods come and go one by one, so that for a moment a gang may be seen without its group.
        """
        return job.uid == self.job.uid or not self._pods.isdisjoint(task.uid for task in members)

    def look(self, job: Job, members: Sequence[Task], starting: Set[str], now: float) -> None:
        """See how it stands, and which tasks (all jobs') are being given nodes."""
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
        # One that failed may be made anew, and runs again.
        self.ended = job.phase is Phase.COMPLETED or (bool(members) and all(task.status in OVER for task in members))

    def leave(self, now: float) -> None:
        """It is seen no more."""
        if self._starting and not self._size:  # it was too short to be seen running
            self._size, self._at = self._starting, self._looked
        self._count(now)
        self._size = self._starting = 0
        self.ended = True

    def _began(self, workers: Sequence[Task], now: float) -> float:
        """When it started since the last look: its last pod, by its kubelet; else when it was decided; else now."""
        starts = [task.started for task in workers if task.status is Status.BOUND and task.started is not None]
        decided = self._looked if self._starting else now
        return min(max(max(starts, default=decided), self._looked), now)

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


def _size(job: Job, members: Sequence[Task], workers: Sequence[Task], starting: Set[str] = frozenset()) -> int:
    """Workers that it runs with, if those that are starting do; 0 if it has too few to run."""
    bound = sum(task.status is Status.BOUND or task.key in starting for task in workers)
    if job.elastic is not None:
        return bound if bound >= job.elastic.min else 0
    done = sum(task.status in (Status.BOUND, Status.SUCCEEDED) or task.key in starting for task in members)
    return bound if done >= job.min_member else 0
