"""Election: a gang that needs many nodes starts in the end, however small jobs keep coming."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from maar.config.config import Config
from maar.config.file import default_config
from maar.registry import catalog
from maar.sim import cluster
from maar.sim.result import JobRecord
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob

NODES, GPUS = 4, 4
HOUR = 3600.0
LONGEST = 6 * HOUR
LATEST = 24 * HOUR + LONGEST + HOUR
"""After this wait a gang that needs all nodes has started: it is elected after 24 hours, then what runs ends."""
DAYS = 2


def stream(seed: int, wide: int) -> Trace:
    """Small jobs that ask for more than the cluster has, all the time, and a gang that needs `wide` whole nodes."""
    dice = random.Random(seed)
    jobs = [TraceJob("wide", 2 * HOUR, HOUR, wide * GPUS, workers=wide, gpus_per_worker=GPUS, min=wide, max=wide)]
    at = 0.0
    while at < DAYS * 24 * HOUR:
        gpus, length = dice.choice((1, 1, 1, 2)), dice.uniform(0.2, 1) * LONGEST
        jobs.append(TraceJob(f"small-{len(jobs)}", at, length, gpus, gpus_per_worker=gpus))
        at += gpus * length / (NODES * GPUS) / 1.2
    return Trace(tuple(sorted(jobs, key=lambda job: job.submit)))


def outcome(config: Config, seed: int, wide: int) -> JobRecord:
    run = cluster.simulate(stream(seed, wide), config, Setting(NODES, GPUS), "election")
    (found,) = [job for job in run.jobs if job.name == "wide"]
    return found


@pytest.mark.parametrize("wide", range(1, NODES + 1))
@pytest.mark.parametrize("seed", range(5))
def test_a_gang_that_needs_many_nodes_starts_in_the_end(seed: int, wide: int) -> None:
    assert outcome(default_config(catalog()), seed, wide).waited <= LATEST


def test_without_election_it_waits_until_no_small_jobs_come() -> None:
    config = default_config(catalog())
    config = replace(config, actions=tuple(a for a in config.actions if a.name not in ("elect", "reserve")))
    assert outcome(config, 0, NODES).waited > DAYS * 24 * HOUR - 2 * HOUR
