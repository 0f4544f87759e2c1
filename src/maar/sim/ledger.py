"""Records the size of each job over time, in columns by job number, and makes a `Run` of it at the end.

Both depths report every change of a job's size to it. It decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from maar.model.resources import Floats, Ints
from maar.sim.result import JobRecord, Run, Sample
from maar.sim.trace import TraceJob

SAMPLES = 2000
"""Maximum samples of a run: more than a plot has columns. Tuned by hand."""


class Ledger:
    """The record of a run so far. It uses plain lists, because only a few jobs change at most moments."""

    def __init__(self, jobs: list[TraceJob], gpus: Ints, alone: Floats) -> None:
        """`gpus` are the GPUs per worker, and `alone` the seconds at the requested size, of each job by number."""
        n = len(jobs)
        self._jobs = jobs
        self._width: list[int] = gpus.tolist()
        self._alone = alone
        self._came = np.zeros(n, dtype=np.bool_)
        """Jobs that have arrived. Jobs that can never run do not arrive."""
        self._size = [0] * n
        """Current workers of each job."""
        self._since = [0.0] * n
        self._started = [math.inf] * n
        self._end = [math.inf] * n
        self._ran = [0.0] * n
        self._gpu_seconds = [0.0] * n
        self._restarts = [0] * n
        self._changes: list[list[tuple[float, int]]] = [[] for _ in jobs]
        self._moments: list[tuple[float, int, int, int, int]] = []
        self.used = 0
        """GPUs in use now."""
        self.running = 0
        self.there = 0
        """Jobs that have arrived and not ended."""
        self.decisions = 0

    def arrive(self, first: int, last: int) -> None:
        """Record the arrival of the jobs `first` to `last - 1`."""
        self._came[first:last] = True
        self.there += last - first

    def change(self, now: float, numbers: Iterable[int], sizes: Iterable[int]) -> None:
        for number, size in zip(numbers, sizes, strict=True):
            before, width = self._size[number], self._width[number]
            if before:
                lasted = now - self._since[number]
                self._gpu_seconds[number] += lasted * (before * width)
                self._ran[number] += lasted
            if size and self._started[number] < math.inf:
                self._restarts[number] += 1
            elif size:
                self._started[number] = now
            self._since[number] = now
            self._size[number] = size
            self.used += (size - before) * width
            self.running += (size > 0) - (before > 0)
            self._changes[number].append((now, size))

    def finish(self, now: float, numbers: Sequence[int]) -> None:
        self.change(now, numbers, [0] * len(numbers))
        for number in numbers:
            self._end[number] = now
        self.there -= len(numbers)

    def leave(self, number: int) -> None:
        """Record that a job that does not run was cancelled."""
        assert not self._size[number]
        self.there -= 1

    def moment(self, now: float, gpus: int) -> None:
        """Record the state of the cluster from now on, which has `gpus` GPUs."""
        self._moments.append((now, self.used, self.running, self.there - self.running, gpus))

    def run(self, policy: str, gpus: int, order: Ints) -> Run:
        """The result; `order` has the job numbers in the order of the trace."""
        ratio = self._ratios(gpus).tolist()
        ended = [number for number in order.tolist() if self._end[number] < math.inf]
        left = tuple(self._jobs[number].name for number in order.tolist() if self._end[number] == math.inf)
        samples, busy = self._samples()
        return Run(
            policy=policy,
            gpus=gpus,
            jobs=tuple(self._record(number, ratio[number]) for number in ended),
            samples=samples,
            events=len(self._moments),
            decisions=self.decisions,
            gpu_utilisation=busy,
            unfinished=left,
        )

    def _record(self, number: int, ratio: float) -> JobRecord:
        job = self._jobs[number]
        end, ran = self._end[number], self._ran[number]
        return JobRecord(
            name=job.name,
            submit=job.submit,
            started=self._started[number],
            end=end,
            waited=max(end - job.submit - ran, 0.0),
            ran=ran,
            restarts=self._restarts[number],
            gpu_seconds=self._gpu_seconds[number],
            gpus=job.gpus,
            workers=job.workers,
            queue=job.queue,
            ratio=ratio,
            sizes=tuple(self._changes[number]),
        )

    def _ratios(self, gpus: int) -> Floats:
        """Finish-time ratios, as `maar.sim.result` defines them."""
        if not self._came.any():
            return np.ones(len(self._jobs))
        submit = np.array([job.submit for job in self._jobs])
        ends = np.array(self._end)
        done = ends < np.inf
        times = np.concatenate((submit[self._came], ends[done]))
        steps = np.concatenate((np.ones(int(self._came.sum())), -np.ones(int(done.sum()))))
        order = np.argsort(times, kind="stable")
        times, there = times[order], np.cumsum(steps[order])
        area = np.concatenate(([0.0], np.cumsum(there[:-1] * np.diff(times))))
        end = np.where(done, ends, times[-1])
        took = end - submit
        with np.errstate(divide="ignore", invalid="ignore"):
            company = np.where(took > 0, (np.interp(end, times, area) - np.interp(submit, times, area)) / took, 1.0)
            asked = np.array([max(job.gpus, 1) for job in self._jobs])
            alone = self._alone * np.maximum(asked * np.maximum(company, 1.0) / max(gpus, 1), 1.0)
            return np.where(alone > 0, took / alone, 1.0)

    def _samples(self) -> tuple[tuple[Sample, ...], float]:
        """The samples, averaged over equal spans if there are more than `SAMPLES`; and the share of GPUs in use."""
        if not self._moments:
            return (), 0.0
        table = np.array(self._moments, dtype=np.float64)
        times, values = table[:, 0], table[:, 1:]
        first, last = float(times[0]), float(times[-1])
        areas = np.concatenate((np.zeros((1, 4)), np.cumsum(values[:-1] * np.diff(times)[:, None], axis=0)))
        used, there = float(areas[-1, 0]), float(areas[-1, 3])
        if len(times) > SAMPLES and last > first:
            edges = np.linspace(first, last, SAMPLES + 1)
            whole = np.stack([np.interp(edges, times, areas[:, i]) for i in range(3)], axis=1)
            means = np.diff(whole, axis=0) / np.diff(edges)[:, None]
            times, values = edges, np.concatenate((means, values[-1:, :3]))
        samples = tuple(Sample(*row) for row in np.column_stack((times, values[:, :3])).tolist())
        return samples, used / there if there > 0 else 0.0
