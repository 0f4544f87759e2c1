"""Synthetic traces from a seed: arrivals, sizes, durations and elastic jobs, for `maar trace generate`.

The same recipe gives the same bytes on every machine: times are rounded to a thousandth of a second, which is far more
than the floating-point arithmetic may differ by.
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
"""The second of the day with the highest rate, if day and night differ. A trace begins at midnight."""

DEFAULT_SIZES: Weights = (("1", 50.0), ("2", 15.0), ("4", 15.0), ("8", 15.0), ("16", 5.0))
"""Most jobs are small, but large jobs use most GPU hours. Tuned by hand."""


BUSY = 0.9
"""The load that `maar trace generate` aims at by default. With less no job waits, and all policies are equal. Above 1
the queue only grows, and the length of the trace decides. Tuned by hand."""
HALF = 0.5
"""The share of elastic jobs by default: without them elastic policies are the others. Tuned by hand."""


class Recipe(msgspec.Struct, frozen=True):
    """The parameters of a synthetic trace. Weights need not add up to 1."""

    seed: int = 0
    jobs: int = 1000
    rate: float = 30.0
    """Mean arrivals per hour."""
    load: float | None = None
    """Replaces `rate`: the share of `cluster` GPUs that the jobs would keep busy if no job ever waited."""
    cluster: int = 64
    """GPUs that `load` refers to."""
    night: float = 0.0
    """How much day and night differ: 0 is a constant rate (Poisson), 1 varies from no jobs to twice the rate."""
    sizes: Weights = DEFAULT_SIZES
    """GPUs per job, weighted."""
    gpus_per_worker: int = 1
    """For jobs whose GPUs are a multiple of it; any other job has one worker."""
    duration: Distribution = Lognormal(median=3600.0)
    elastic: float = 0.0
    """Share of elastic jobs, 0 to 1."""
    stretch: float = 4.0
    """An elastic job may shrink to its workers divided by this, and grow to its workers times this."""
    models: Weights = tuple((name, 1.0) for name in OVERHEAD)
    """Model classes, which set the speed-up of jobs, weighted."""
    queues: Weights = (("default", 1.0),)
    priorities: Weights = (("0", 1.0),)


def generate(recipe: Recipe) -> Trace:
    """Generate the trace of a recipe."""
    n = recipe.jobs
    arrivals, sizes, durations, elastic, models, queues, priorities = streams(recipe.seed, 7)
    gpus = [int(sizes.choice(recipe.sizes)) for _ in range(n)]
    seconds = [max(round(recipe.duration(durations.uniform()), 3), 1.0) for _ in range(n)]
    rate = recipe.rate / 3600.0
    if recipe.load is not None:
        work = sum(g * s for g, s in zip(gpus, seconds, strict=True))
        rate = recipe.load * recipe.cluster * n / work
    jobs = []
    for i, submit in zip(range(n), _arrivals(arrivals, rate, recipe.night), strict=False):
        per_worker = recipe.gpus_per_worker if gpus[i] % recipe.gpus_per_worker == 0 else gpus[i]
        workers = gpus[i] // per_worker
        stretch = recipe.stretch if elastic.uniform() < recipe.elastic else 1.0
        model = models.choice(recipe.models)
        job = TraceJob(
            name=f"job-{i + 1:0{len(str(n))}}",
            submit=submit,
            duration=seconds[i],
            gpus=gpus[i],
            workers=workers,
            gpus_per_worker=per_worker,
            min=min(max(round(workers / stretch), 1), workers),
            max=max(round(workers * stretch), workers),
            queue=queues.choice(recipe.queues),
            priority=int(priorities.choice(recipe.priorities)),
            model=model,
            speedup=CLASSES[model],
        )
        jobs.append(job)
    return Trace(tuple(jobs), f"generated from seed {recipe.seed}")


def _arrivals(stream: Stream, rate: float, night: float) -> Iterator[float]:
    """Times of a Poisson process whose rate follows the day, by thinning a process with the highest rate."""
    now, highest = 0.0, rate * (1.0 + night)
    while True:
        now += -math.log(stream.uniform()) / highest
        here = rate * (1.0 + night * math.cos(2.0 * math.pi * (now - BUSIEST) / DAY))
        if not night or stream.uniform() * highest < here:
            yield round(now, 3)
