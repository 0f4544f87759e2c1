"""Measures simulations: `make bench-sim`.

Prints one line per figure, and one line of JSON at the end: the seconds of one policy on 5,755 jobs on 64 GPUs and on
82,000 jobs on 2,000 GPUs (pool depth), and of 1,000 jobs with gangs on 200 nodes (cluster depth). The traces come from
a seed, with a load at which jobs wait. `python -m bench.sim 3 tiresias` runs pool depth at a load of 3, at which tens
of thousands of jobs wait, and measures only the named policies.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from maar.config.file import default_config
from maar.registry import catalog
from maar.sim import cluster, pool
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob

POLICIES = ("fifo", "elastic-fifo", "srtf", "tiresias")


def made(jobs: int, gpus: int, load: float, seed: int, largest: int = 64, elastic: float = 0.3) -> Trace:
    """Jobs of all durations, most of them small, that request `load` times the GPUs while they arrive."""
    dice = np.random.default_rng(seed)
    sizes = np.array([1, 2, 4, 8, 16, 32, 64])
    share = np.array([0.5, 0.15, 0.15, 0.12, 0.05, 0.02, 0.01])[sizes <= largest]
    size = dice.choice(sizes[sizes <= largest], jobs, p=share / share.sum())
    duration = np.minimum(dice.lognormal(7.5, 1.8, jobs), 30 * 86_400.0).round(3)
    span = float((size * duration).sum()) / gpus / load
    submit = np.sort(dice.uniform(0, span, jobs)).round(3)
    grows = (dice.random(jobs) < elastic) & (size > 1)
    return Trace(
        tuple(
            TraceJob(
                name=f"job-{i}",
                submit=float(submit[i]),
                duration=float(duration[i]),
                gpus=int(size[i]),
                workers=int(size[i]),
                min=int(size[i]) // 2 if grows[i] else int(size[i]),
                max=int(size[i]) * 2 if grows[i] else int(size[i]),
            )
            for i in range(jobs)
        ),
        f"made from seed {seed}",
    )


def seconds_of(trace: Trace, policy: str, setting: Setting) -> float:
    """Seconds of one policy."""
    start = time.perf_counter()
    run = pool.simulate(trace, catalog().algorithms[policy], setting)
    took = time.perf_counter() - start
    assert len(run.jobs) == len(trace.jobs), run.unfinished
    text = f"{policy:<13} {len(trace.jobs)} jobs, {setting.gpus} GPUs: {took:7.1f} s"
    print(f"{text} ({run.events} events, {took / run.events * 1e6:.0f} us each)", flush=True)
    return round(took, 2)


def seconds_of_cluster(trace: Trace, setting: Setting) -> float:
    """Seconds of full sessions with Maar's default configuration."""
    start = time.perf_counter()
    run = cluster.simulate(trace, default_config(catalog()), setting, "default")
    took = time.perf_counter() - start
    assert len(run.jobs) == len(trace.jobs), run.unfinished
    text = f"{'cluster':<13} {len(trace.jobs)} jobs, {setting.nodes} nodes: {took:7.1f} s"
    print(f"{text} ({run.decisions} decisions, {took / run.decisions * 1e3:.1f} ms each)", flush=True)
    return round(took, 2)


def main() -> None:
    """Measure all figures, or only the named policies; a number sets the load."""
    named = [word for word in sys.argv[1:] if word in catalog().algorithms]
    load = next((float(word) for word in sys.argv[1:] if word not in named), 1.0)
    small, large = made(5755, 64, load, 1), made(82_000, 2000, load, 2)
    figures: dict[str, object] = {
        "5755 jobs, 64 GPUs": {policy: seconds_of(small, policy, Setting(8, 8)) for policy in named or POLICIES},
        "82000 jobs, 2000 GPUs": {policy: seconds_of(large, policy, Setting(250, 8)) for policy in named or POLICIES},
    }
    if not named:
        figures["1000 jobs, 200 nodes"] = seconds_of_cluster(made(1000, 1600, 8.0, 3), Setting(200, 8))
    print(json.dumps({"sim": figures}))


if __name__ == "__main__":
    main()
