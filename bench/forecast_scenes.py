"""What `bench.forecast` measures on: generated weeks of jobs, and one large cluster at one moment."""

from __future__ import annotations

import math

from msgspec.structs import replace

from maar.forecast.runtimes import Sample, Traits
from maar.model.snapshot import Cluster
from maar.model.stems import stem_of
from maar.model.tasks import Status
from maar.sim.draws import Lognormal, Stream, Uniform, streams
from maar.sim.generate import Recipe, generate
from maar.sim.trace import Trace, TraceJob
from maar.sim.virtual import NAMESPACE, Virtual, key_of, make_job, make_nodes

GPUS_PER_NODE = 8
DURATION = Lognormal(median=3600.0, sigma=1.5)
LIMIT = Uniform(1.5, 10.0)
"""Declared limits, in run times."""
QUEUES = (("research", 2.0), ("production", 1.0))
ELASTIC = 0.1
WEEK = 7 * 86400.0


def recipe(seed: int, jobs: int, nodes: int, load: float) -> Recipe:
    return Recipe(
        seed=seed,
        jobs=jobs,
        load=load,
        cluster=nodes * GPUS_PER_NODE,
        gpus_per_worker=2,
        duration=DURATION,
        elastic=ELASTIC,
        stretch=2.0,
        queues=QUEUES,
    )


def weeks(seed: int, jobs: int, nodes: int, load: float) -> Trace:
    """Jobs with declared limits. Owners and names say nothing about run times: all jobs are alike."""
    trace = generate(recipe(seed, jobs, nodes, load))
    (dice,) = streams(seed + 1_000_000, 1)
    return Trace(tuple(replace(j, limit=j.duration * LIMIT(dice.uniform())) for j in trace.jobs), trace.source)


def sample(job: TraceJob) -> Sample:
    """What the history knows of a finished job."""
    return Sample(Traits(NAMESPACE, stem_of(job.name), job.gpus, "", job.limit), job.duration)


def honest(cluster: Cluster) -> Cluster:
    """The cluster without the simulator's exact knowledge of the work that elastic jobs have left."""
    jobs = (
        job if job.elastic is None else replace(job, elastic=replace(job.elastic, remaining=math.inf))
        for job in cluster.jobs
    )
    return replace(cluster, jobs=tuple(jobs))


def large(seed: int, nodes: int, waiting: int, now: float) -> tuple[Cluster, list[Sample]]:
    """Full nodes, `waiting` jobs in the queue, and 500 finished jobs."""
    trace = weeks(seed, 500 + nodes * GPUS_PER_NODE + waiting, nodes, 1.0)
    (dice,) = streams(seed + 2_000_000, 1)
    virtual = Virtual(make_nodes(nodes, GPUS_PER_NODE), (name for name, _ in QUEUES))
    names = [node.name for node in virtual.cluster().nodes]
    free = dict.fromkeys(names, GPUS_PER_NODE)
    left = 0
    for job in trace.jobs[500:]:
        if sum(free.values()):
            _run(virtual, job, free, dice, now)
        elif left < waiting:
            virtual.put(*make_job(job, now - 3600.0 + left, False, 30.0))
            left += 1
    assert waiting == left
    return honest(virtual.cluster()), [sample(job) for job in trace.jobs[:500]]


def _run(virtual: Virtual, job: TraceJob, free: dict[str, int], dice: Stream, now: float) -> None:
    """Start a job at a past moment, on the first nodes with room; a job that does not fit is left out."""
    width = max(job.gpus_per_worker, 1)
    places = [name for name, gpus in free.items() for _ in range(gpus // width)][: job.workers]
    if len(places) < job.workers:
        return
    for name in places:
        free[name] -= width
    started = now - job.duration * dice.uniform()
    made, tasks = make_job(job, started, False, 30.0)
    if made.elastic is not None:
        past = replace(made.elastic.past, first_start=started, since=started, counted=started)
        made = replace(made, elastic=replace(made.elastic, suspended=False, past=past))
        _, tasks = make_job(replace(job, min=job.workers, max=job.workers), started, False, 30.0)
    bound = (
        replace(task, status=Status.BOUND, node=name, started=started) for task, name in zip(tasks, places, strict=True)
    )
    virtual.put(made, tuple(bound))


__all__ = ["GPUS_PER_NODE", "WEEK", "honest", "key_of", "large", "sample", "weeks"]
