"""Describes a trace in numbers, for `maar trace describe` and reports. Nothing here depends on a policy."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from maar.sim.trace import Trace

PERCENTILES = (0, 25, 50, 75, 90, 99, 100)


class Size(msgspec.Struct, frozen=True):
    """Jobs with the same number of requested GPUs."""

    gpus: int
    jobs: int
    gpu_hours: float


class QueueShare(msgspec.Struct, frozen=True):
    """Jobs of one queue."""

    queue: str
    jobs: int
    gpu_hours: float


class Description(msgspec.Struct, frozen=True):
    """A trace in numbers. Times are in seconds unless the name says otherwise."""

    source: str
    jobs: int
    span: float
    """From the first submission to the last."""
    jobs_per_hour: float | None
    """Over the span; None if all jobs are submitted at once."""
    busiest_hour: int
    """Submissions in the busiest hour, with hours counted from the first submission."""
    gpu_hours: float
    duration_mean: float
    durations: dict[str, float]
    """Percentiles: `p0` is the shortest, `p50` the median, `p100` the longest."""
    sizes: list[Size]
    queues: list[QueueShare]
    priorities: dict[str, int]
    """Number of jobs by priority."""
    models: dict[str, int]
    """Number of jobs by model, for jobs that name one."""
    elastic_jobs: int
    elastic_gpu_hours: float
    gpus: int | None = None
    """GPUs of the cluster to compare with."""
    load: float | None = None
    """Requested GPU seconds divided by those of the cluster within the span: above 1, the cluster falls behind."""
    too_large: int | None = None
    """Jobs that need more GPUs than the cluster has."""
    notes: tuple[str, ...] = ()


def describe(trace: Trace, gpus: int | None = None) -> Description:
    """Describe a trace, and its load on a cluster of `gpus` GPUs if given."""
    jobs = trace.jobs
    submit = np.array([job.submit for job in jobs])
    duration = np.array([job.duration for job in jobs])
    hours = np.array([job.gpus for job in jobs]) * duration / 3600.0
    elastic = np.array([job.elastic for job in jobs])
    first, span = float(submit.min()), float(submit.max() - submit.min())
    by_size: dict[int, list[int]] = {}
    by_queue: dict[str, list[int]] = {}
    for i, job in enumerate(jobs):
        by_size.setdefault(job.gpus, []).append(i)
        by_queue.setdefault(job.queue, []).append(i)
    points = np.percentile(duration, PERCENTILES)
    return Description(
        source=trace.source,
        jobs=len(jobs),
        span=span,
        jobs_per_hour=len(jobs) / span * 3600.0 if span else None,
        busiest_hour=int(np.unique((submit - first) // 3600, return_counts=True)[1].max()),
        gpu_hours=float(hours.sum()),
        duration_mean=float(duration.mean()),
        durations={f"p{p}": float(value) for p, value in zip(PERCENTILES, points, strict=True)},
        sizes=[Size(size, len(rows), float(hours[rows].sum())) for size, rows in sorted(by_size.items())],
        queues=[QueueShare(name, len(rows), float(hours[rows].sum())) for name, rows in sorted(by_queue.items())],
        priorities={str(p): count for p, count in sorted(Counter(job.priority for job in jobs).items())},
        models=dict(sorted(Counter(job.model for job in jobs if job.model).items())),
        elastic_jobs=int(elastic.sum()),
        elastic_gpu_hours=float(hours[elastic].sum()),
        gpus=gpus,
        load=float(hours.sum()) * 3600.0 / (gpus * span) if gpus and span else None,
        too_large=sum(job.min * job.gpus_per_worker > gpus for job in jobs) if gpus else None,
        notes=trace.notes,
    )
