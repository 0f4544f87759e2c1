"""How elastic jobs stand: their past and present as the columns that algorithms read, and the past that is written.

Attained service is counted when it is asked for: what was counted at the last change, and since then the workers that
run. It is never reset; a job that was promoted starts again at the top because what it had before is forgiven.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from maar.elastic.jobs import Jobs, make_jobs
from maar.elastic.speedup import curve
from maar.model.elastic import Past
from maar.model.jobs import Job
from maar.session.resizing.workers import NOBODY, elastic_of, running_before, worker_shape
from maar.session.session import Session


def columns(session: Session, jobs: list[Job]) -> Jobs:
    """The jobs of a pool as an algorithm is asked about them."""
    said = [elastic_of(job) for job in jobs]
    pasts = [past_of(session, job) for job in jobs]
    now = session.now
    return make_jobs(
        [job.key for job in jobs],
        min=[e.min for e in said],
        max=[e.max for e in said],
        requested=[min(max(e.requested or e.size, e.min), e.max) for e in said],
        gpus=[gpus_of(session, job) for job in jobs],
        priority=[job.priority for job in jobs],
        submit=[job.created for job in jobs],
        remaining=[e.remaining for e in said],
        attained=[max(p.attained - p.forgiven, 0.0) for p in pasts],
        first_start=[math.inf if p.first_start is None else p.first_start for p in pasts],
        waited=[_since(p, job, now) if e.suspended else 0.0 for p, job, e in zip(pasts, jobs, said, strict=True)],
        ran=[p.ran if e.suspended else _since(p, job, now) for p, job, e in zip(pasts, jobs, said, strict=True)],
        speedup=[curve(dict(e.speedup)) for e in said],
    )


def gpus_of(session: Session, job: Job) -> int:
    """What one worker counts for: its accelerators, or 1 where worker slots are counted."""
    return max(int(session.snapshot.shapes.gpus[worker_shape(session, job)]), 1)


def _since(past: Past, job: Job, now: float) -> float:
    return max(now - (job.created if past.since is None else past.since), 0.0)


def past_of(session: Session, job: Job) -> Past:
    """A job's past up to now; of one that Maar never touched, as its running workers tell it."""
    past, now, had = elastic_of(job).past, session.now, 0.0
    running = running_before(session, job) if session.snapshot.jobs.ready[job.index] else NOBODY
    if len(running):
        started = session.snapshot.tasks.started[running]
        if past.first_start is None:
            past = replace(past, first_start=float(started.min()), since=past.since or float(started.min()))
        # Each worker counts from its own start: its owner may have paused the job since it was last counted.
        since = started if past.counted is None else np.maximum(started, past.counted)
        had = float(np.maximum(now - since, 0.0).sum()) * gpus_of(session, job)
    return replace(past, attained=past.attained + had, counted=now)


def past_after(past: Past, now: float, before: int, after: int, forgive: bool) -> Past:
    """The past that is written with a change of size."""
    past = replace(past, last_resize=now)
    if before == 0 and after > 0:
        first = now if past.first_start is None else past.first_start
        return replace(
            past, since=now, ran=0.0, first_start=first, forgiven=past.attained if forgive else past.forgiven
        )
    if before > 0 and after == 0:
        return replace(past, ran=now - (past.since if past.since is not None else now), since=now)
    return past
