"""Measures elastic algorithms: `make bench-elastic`.

Prints one line per algorithm, and at the end one line of JSON with the seconds of one plan for 10,000 jobs on 10,000
GPUs. Each figure is the slowest of a few scenes. Each scene is timed once, because a plan is computed once.
"""

from __future__ import annotations

import gc
import json
import time
from functools import partial
from timeit import repeat

import numpy as np

from maar.config.config import Registration
from maar.elastic.allocate import allocate
from maar.elastic.jobs import Jobs, make_jobs
from maar.elastic.speedup import curve
from maar.registry import ALGORITHMS

JOBS = GPUS = 10_000
MAX = 16
SIMULATED = 100
"""Jobs in one question of the simulator."""


def scene(seed: int, jobs: int, min: int, gpus_per_worker: tuple[int, ...]) -> Jobs:
    """Jobs of all ages and durations, in 200 categories with their own speed-up."""
    dice = np.random.default_rng(seed)
    sizes = np.arange(1, MAX + 1)
    curves = [
        curve(dict(zip(sizes.tolist(), (sizes**power).tolist(), strict=True))) for power in dice.uniform(0.5, 1, 200)
    ]
    category = dice.integers(0, len(curves), jobs)
    ran = dice.exponential(3600, jobs) * (dice.random(jobs) < 0.7)
    least = dice.integers(1, min + 1, jobs)
    return make_jobs(
        [f"team/job-{i}" for i in range(jobs)],
        min=least,
        max=MAX,
        requested=np.minimum(least * 2, MAX),
        gpus=dice.choice(gpus_per_worker, jobs),
        submit=dice.uniform(0, 1e6, jobs),
        remaining=dice.exponential(36_000, jobs),
        attained=ran * 4,
        first_start=np.where(ran > 0, dice.uniform(0, 1e6, jobs), np.inf),
        waited=dice.exponential(3600, jobs),
        ran=ran,
        speedup=[curves[i] for i in category.tolist()],
    )


def scenes() -> dict[str, Jobs]:
    """A few jobs that can grow far, many jobs that cannot all start, and workers of several sizes."""
    return {
        "crowded": scene(1, JOBS, 1, (1,)),
        "roomy": make_roomy(),
        "mixed": scene(3, JOBS, 4, (1, 2, 4, 8)),
    }


def make_roomy() -> Jobs:
    """Half of the jobs stay at their minimum, so that the others grow."""
    jobs = scene(2, JOBS, 1, (1,))
    return jobs.bounded(max=np.where(np.arange(JOBS) % 10 == 0, MAX, 1)).only(np.arange(0, JOBS, 2))


def seconds(algorithm: Registration, jobs: Jobs, gpus: int) -> float:
    """Seconds of one plan."""
    gc.collect()
    start = time.perf_counter()
    allocate(algorithm, jobs, gpus)
    return time.perf_counter() - start


def main() -> None:
    """All algorithms."""
    figures: dict[str, float] = {}
    large, small = scenes(), scene(4, SIMULATED, 1, (1, 8))
    print(f"{JOBS} jobs, {GPUS} GPUs, max {MAX}: seconds of one plan; {SIMULATED} jobs and GPUs: microseconds")
    for algorithm in ALGORITHMS:
        each = {name: seconds(algorithm, jobs, GPUS) for name, jobs in large.items()}
        figures[algorithm.name] = round(max(each.values()), 4)
        quick = min(repeat(partial(allocate, algorithm, small, SIMULATED), number=10, repeat=5)) / 10 * 1e6
        by_scene = ", ".join(f"{name} {took:.3f}" for name, took in each.items())
        print(f"{algorithm.name:<17} {figures[algorithm.name]:>7.3f} s ({by_scene}); {quick:>6.0f} us")
    print(json.dumps({"elastic": figures}))


if __name__ == "__main__":
    main()
