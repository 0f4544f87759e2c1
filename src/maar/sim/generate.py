"""Synthetic traces from a seed: when jobs come, how large they are, how long they run, which of them are elastic.

Beside the formats, where traces come from files; what comes out is the same `Trace`. The same recipe gives the same
trace to the byte, on every machine: times are rounded to a thousandth, far above what their arithmetic may differ by.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from maar.sim.draws import Distribution, Lognormal, Stream, Weights, streams
from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.curves import CLASSES, OVERHEAD

DAY = 86400.0
BUSIEST = 14 * 3600.0
"""The time of day at which most jobs come, where day and night differ. A trace begins at midnight."""

DEFAULT_SIZES: Weights = (("1", 50.0), ("2", 15.0), ("4", 15.0), ("8", 15.0), ("16", 5.0))
"""By taste: most jobs are small, most GPU hours are in large ones."""


class Recipe(msgspec.Struct, frozen=True):
    """What a synthetic trace is like. Weights need not sum to anything."""

    seed: int = 0
    jobs: int = 1000
    rate: float = 30.0
    """Arrivals in an hour, on average."""
    load: float | None = None
    """Instead of a rate: the part of `cluster` GPUs that the jobs would keep busy if none ever waited."""
    cluster: int = 64
    """GPUs of which `load` is a part."""
    night: float = 0.0
    """How much day and night differ: 0 not at all (Poisson), 1 from nothing at night to twice the rate by day."""
    sizes: Weights = DEFAULT_SIZES
    """GPUs of a job, and how often."""
    gpus_per_worker: int = 1
    """Of a job with at least so many and a multiple of them; any other has one worker."""
    duration: Distribution = Lognormal(median=3600.0)
    elastic: float = 0.0
    """The share of elastic jobs."""
    stretch: float = 4.0
    """An elastic job may have its workers divided by this, and times this."""
    models: Weights = tuple((name, 1.0) for name in OVERHEAD)
    """Model classes, whose speed-ups jobs have, and how often."""
    queues: Weights = (("default", 1.0),)
    priorities: Weights = (("0", 1.0),)


def generate(recipe: Recipe) -> Trace:
    """The trace of a recipe."""
    n = recipe.jobs
    arrivals, sizes, durations, elastic, models, queues, priorities = streams(recipe.seed, 7)
    gpus = [int(sizes.choice(recipe.sizes)) for _ in range(n)]
    seconds = [max(round(recipe.duration(durations.uniform()), 3), 1.0) for _ in range(n)]
    rate = recipe.rate / 3600.0
    if recipe.load is not None:
        work = sum(g * s for g, s in zip(gpus, seconds, strict=True))
        rate = recipe.load * recipe.cluster * n / work
    moments = _arrivals(arrivals, rate, recipe.night)
    width = len(str(n))
    jobs = tuple(
        _job(
            f"job-{i + 1:0{width}}",
            next(moments),
            seconds[i],
            gpus[i],
            recipe,
            is_elastic=elastic.uniform() < recipe.elastic,
            model=models.choice(recipe.models),
            queue=queues.choice(recipe.queues),
            priority=int(priorities.choice(recipe.priorities)),
        )
        for i in range(n)
    )
    return Trace(jobs, f"generated from seed {recipe.seed}")


def _arrivals(stream: Stream, rate: float, night: float) -> Iterator[float]:
    """Moments of a Poisson process whose rate follows the day; by thinning one that always has the highest rate."""
    now, highest = 0.0, rate * (1.0 + night)
    while True:
        now += -math.log(stream.uniform()) / highest
        here = rate * (1.0 + night * math.cos(2.0 * math.pi * (now - BUSIEST) / DAY))
        if not night or stream.uniform() * highest < here:
            yield round(now, 3)


def _job(
    name: str,
    submit: float,
    duration: float,
    gpus: int,
    recipe: Recipe,
    *,
    is_elastic: bool,
    model: str,
    queue: str,
    priority: int,
) -> TraceJob:
    per_worker = recipe.gpus_per_worker if gpus % recipe.gpus_per_worker == 0 else gpus
    workers = gpus // per_worker
    low = max(round(workers / recipe.stretch), 1) if is_elastic else workers
    high = max(round(workers * recipe.stretch), workers) if is_elastic else workers
    return TraceJob(
        name=name,
        submit=submit,
        duration=duration,
        gpus=gpus,
        workers=workers,
        gpus_per_worker=per_worker,
        min=min(low, workers),
        max=high,
        queue=queue,
        priority=priority,
        model=model,
        speedup=CLASSES[model],
    )
