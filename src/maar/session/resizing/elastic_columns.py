"""The state of elastic jobs: their past and present as columns for algorithms, and the past to write back.

Attained service is computed on demand: the amount counted at the last change, plus the running workers since then. It
is never reset. A promoted job starts at the top again because its earlier service is forgiven.

The past is written on the job's own object, where its owner can change it. So it is checked: the job is never better
off than a job that was just created, with the workers that run now.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from maar.elastic.jobs import Jobs, make_jobs
from maar.elastic.speedup import curve
from maar.lengths.left import NO_KIND, left
from maar.model.elastic import Elastic, Past
from maar.model.jobs import Job
from maar.model.resources import Floats
from maar.model.tasks import NO_TASKS
from maar.session.resizing.workers import elastic_of, running_before, worker_shape
from maar.session.session import Session

ROUNDING = 1.0
"""GPU seconds by which two sums of the same service may differ; tuned by hand."""


def columns(session: Session, jobs: list[Job], restart: Floats | None = None) -> Jobs:
    """The jobs of a pool as columns for an algorithm. `restart` is what a change costs each job that has started."""
    specs = [elastic_of(job) for job in jobs]
    pasts = [past_of(session, job) for job in jobs]
    now = session.now
    started = np.array([p.first_start is not None for p in pasts], dtype=np.bool_)
    waited = [_since(p, job, now) if e.suspended else 0.0 for p, job, e in zip(pasts, jobs, specs, strict=True)]
    table = make_jobs(
        [job.key for job in jobs],
        min=[e.min for e in specs],
        max=[e.max for e in specs],
        requested=[min(max(e.requested or e.size, e.min), e.max) for e in specs],
        gpus=[gpus_of(session, job) for job in jobs],
        priority=[job.priority for job in jobs],
        submit=[job.created for job in jobs],
        remaining=[e.remaining for e in specs],
        attained=[max(p.attained - p.forgiven, 0.0) for p in pasts],
        first_start=[math.inf if p.first_start is None else p.first_start for p in pasts],
        waited=waited,
        ran=[p.ran if e.suspended else _since(p, job, now) for p, job, e in zip(pasts, jobs, specs, strict=True)],
        speedup=[curve(dict(e.speedup)) for e in specs],
        size=[e.now for e in specs],
        measured=[e.measured or (e.speedup[-1][0] if e.speedup else 0) for e in specs],
        restart=0.0 if restart is None else restart * started,
        delayed=[p.idle + waits for p, waits in zip(pasts, waited, strict=True)],
    )
    promise = np.array([math.inf if job.promise is None else job.promise for job in jobs], dtype=np.float64)
    table.promised[:] = promise * table.speed(table.requested)
    _fill_in(table, specs)
    return table


def _fill_in(table: Jobs, specs: list[Elastic]) -> None:
    """Fill in the work left of jobs that neither say nor promise it, as far as the history tells it."""
    rows = np.flatnonzero(np.isinf(table.remaining) & np.isinf(table.promised))
    lengths = [specs[row].length for row in rows.tolist()]
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(e.kind for e in specs if e.kind))}
    kind = [numbers.get(specs[row].kind, NO_KIND) for row in rows.tolist()]
    half = np.array([math.inf if e is None else e.half for e in lengths])
    most = np.array([math.inf if e is None else e.most for e in lengths])
    table.remaining[rows] = left(table.done[rows], half, most, np.array(kind, dtype=np.int64))


def gpus_of(session: Session, job: Job) -> int:
    """The GPUs of one worker, or 1 if worker slots are counted."""
    return max(int(session.snapshot.shapes.gpus[worker_shape(session, job)]), 1)


def _since(past: Past, job: Job, now: float) -> float:
    return max(now - (job.created if past.since is None else past.since), 0.0)


def past_of(session: Session, job: Job) -> Past:
    """The past of a job up to now; for a job without recorded past, derived from its running workers."""
    past, now, had = believable(elastic_of(job).past, job.created, session.now), session.now, 0.0
    running = running_before(session, job) if session.snapshot.jobs.ready[job.index] else NO_TASKS
    if len(running):
        started = session.snapshot.tasks.started[running]
        if past.first_start is None:
            past = replace(past, first_start=float(started.min()), since=past.since or float(started.min()))
        # Each worker counts from its own start: the owner may have paused the job since the last count.
        since = started if past.counted is None else np.maximum(started, past.counted)
        gpus = gpus_of(session, job)
        had = float(np.maximum(now - since, 0.0).sum()) * gpus
        shown = float(np.maximum(now - started, 0.0).sum()) * gpus
        if shown > past.attained + had - past.forgiven + ROUNDING:
            had = shown + past.forgiven - past.attained
    return replace(past, attained=past.attained + had, counted=now)


def believable(past: Past, created: float, now: float) -> Past:
    """The past without times before the job existed or in the future, and without negative amounts."""
    attained = max(past.attained, 0.0)
    first, since, counted = (
        None if at is None or at > now else max(at, created) for at in (past.first_start, past.since, past.counted)
    )
    forgiven = min(max(past.forgiven, 0.0), attained)
    life = (now if since is None else since) - created
    return replace(
        past,
        first_start=first,
        since=since,
        counted=counted,
        ran=max(past.ran, 0.0),
        attained=attained,
        forgiven=forgiven,
        idle=min(max(past.idle, 0.0), max(life, 0.0)),
    )


def past_after(past: Past, created: float, now: float, before: int, after: int, forgive: bool) -> Past:
    """The past to write with a change of size."""
    past = replace(past, last_resize=now)
    if before == 0 and after > 0:
        return replace(
            past,
            since=now,
            ran=0.0,
            first_start=now if past.first_start is None else past.first_start,
            forgiven=past.attained if forgive else past.forgiven,
            idle=past.idle + max(now - (created if past.since is None else past.since), 0.0),
        )
    if before > 0 and after == 0:
        return replace(past, ran=now - (past.since if past.since is not None else now), since=now)
    return past
