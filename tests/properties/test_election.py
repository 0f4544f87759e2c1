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
HOUR, DAY = 3600.0, 86400.0


def stream(seed: int, wide: int, longest: float, end: float) -> Trace:
    """Small jobs that ask for more than the cluster has, all the time, and a gang that needs `wide` whole nodes."""
    dice = random.Random(seed)
    jobs = [TraceJob("wide", 2 * HOUR, HOUR, wide * GPUS, workers=wide, gpus_per_worker=GPUS, min=wide, max=wide)]
    at = 0.0
    while at < end:
        gpus, length = dice.choice((1, 1, 1, 2)), dice.uniform(0.2, 1) * longest
        jobs.append(TraceJob(f"small-{len(jobs)}", at, length, gpus, gpus_per_worker=gpus))
        at += gpus * length / (NODES * GPUS) / 1.2
    return Trace(tuple(sorted(jobs, key=lambda job: job.submit)))


def outcome(config: Config, trace: Trace) -> JobRecord:
    run = cluster.simulate(trace, config, Setting(NODES, GPUS), "election")
    (found,) = [job for job in run.jobs if job.name == "wide"]
    return found


@pytest.mark.parametrize("wide", range(2, NODES + 1))
@pytest.mark.parametrize("seed", [0, 3])
def test_a_gang_that_needs_many_nodes_starts_in_the_end(seed: int, wide: int) -> None:
    """One that needs all is elected after a day. Then what runs ends, in 6 hours at most."""
    trace = stream(seed, wide, longest=6 * HOUR, end=2 * DAY)
    assert outcome(default_config(catalog()), trace).waited <= DAY + 7 * HOUR


def test_it_starts_although_running_work_takes_longer_than_an_election() -> None:
    """Four times as long: the first two elections are too short."""
    trace = stream(0, NODES, longest=DAY, end=5 * DAY)
    assert outcome(default_config(catalog()), trace).waited <= 4 * DAY


def test_without_election_it_waits_until_no_small_jobs_come() -> None:
    config = default_config(catalog())
    config = replace(config, actions=tuple(a for a in config.actions if a.name not in ("elect", "reserve")))
    assert outcome(config, stream(0, NODES, longest=6 * HOUR, end=2 * DAY)).waited > 2 * DAY - 2 * HOUR
