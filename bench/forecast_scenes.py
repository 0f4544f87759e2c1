"""What `bench.forecast` measures on: generated weeks of jobs, and one large cluster at one moment."""

from __future__ import annotations

import math

import msgspec
from msgspec.structs import replace

from maar.forecast.arrivals import Asked, Pods, Submission
from maar.lengths.runtimes import RunSample, Traits
from maar.model.name_stems import stem_of
from maar.model.snapshot import Cluster
from maar.model.tasks import Status
from maar.sim.draws import Lognormal, Stream, Uniform, streams
from maar.sim.generate import Recipe, generate
from maar.sim.trace import Trace, TraceJob
from maar.sim.virtual import NAMESPACE, Virtual, key_of, make_job, make_nodes, shape_of

GPUS_PER_NODE = 8
DURATION = Lognormal(median=3600.0, sigma=1.5)
LIMIT = Uniform(1.5, 10.0)
"""Declared limits, in run times."""
QUEUES = (("research", 2.0), ("production", 1.0))
ELASTIC = 0.1
WEEK = 7 * 86400.0
LOAD = 0.95
CANCELLED = 0.05
"""The share of jobs whose owner deletes them if they wait too long, and of jobs that are stopped while they run."""
PATIENCE = 3600.0
"""Mean seconds that owners wait before they delete a job: an exponential distribution."""


class Weeks(msgspec.Struct, frozen=True):
    """Generated jobs, and how long the owners of some of them wait before they delete them."""

    trace: Trace
    patience: dict[str, float]


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


def weeks(seed: int, jobs: int, nodes: int, load: float) -> Weeks:
    """Jobs with declared limits. Owners and names say nothing about run times: all jobs are alike.

    Some jobs are stopped while they run, at a random part of their run time; their limits stay. Arrivals are then
    moved closer together, so that the load is again the one that is asked for.
    """
    made = generate(recipe(seed, jobs, nodes, load)).jobs
    limits, stops, parts, leaves, waits = streams(seed + 1_000_000, 5)
    with_limits = [replace(job, limit=job.duration * LIMIT(limits.uniform())) for job in made]
    stopped = [
        replace(job, duration=max(job.duration * part, 1.0)) if stops.uniform() < CANCELLED else job
        for job, part in zip(with_limits, [parts.uniform() for _ in made], strict=True)
    ]
    closer = sum(job.gpus * job.duration for job in stopped) / sum(job.gpus * job.duration for job in made)
    trace = Trace(tuple(replace(job, submit=job.submit * closer) for job in stopped), f"generated from seed {seed}")
    seconds = [-math.log(waits.uniform()) * PATIENCE for _ in made]
    patience = {key_of(j): s for j, s in zip(made, seconds, strict=True) if leaves.uniform() < CANCELLED}
    return Weeks(trace, patience)


def sample(job: TraceJob) -> RunSample:
    """What the history knows of a finished job."""
    return RunSample(Traits(NAMESPACE, stem_of(job.name), job.gpus, "", job.limit), job.duration)


def submission(job: TraceJob, at: float, ended: float) -> Submission:
    """What the history knows of the submission of a finished job."""
    pods = (Pods(job.workers, shape_of(job).requests),)
    least, most = (job.min, job.max) if job.elastic else (job.workers, 0)
    asked = Asked(pods, least, most, job.priority)
    return Submission(at, job.queue, sample(job).traits, asked, job.duration, ended)


def honest(cluster: Cluster) -> Cluster:
    """The cluster without the simulator's exact knowledge of the work that elastic jobs have left."""
    jobs = (
        job if job.elastic is None else replace(job, elastic=replace(job.elastic, remaining=math.inf))
        for job in cluster.jobs
    )
    return replace(cluster, jobs=tuple(jobs))


def large(seed: int, nodes: int, waiting: int, now: float) -> tuple[Cluster, list[RunSample], list[Submission]]:
    """Full nodes, `waiting` jobs in the queue, 500 finished jobs, and all submissions of five days."""
    trace = weeks(seed, 500 + nodes * GPUS_PER_NODE + waiting, nodes, 1.0).trace
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
    return honest(virtual.cluster()), [sample(job) for job in trace.jobs[:500]], _past(seed, nodes, now)


def _past(seed: int, nodes: int, now: float) -> list[Submission]:
    """Jobs that came in the last days and have ended: a cluster with as much load as it has room."""
    jobs = weeks(seed + 1, 100 * nodes, nodes, LOAD).trace.jobs
    begin = now - jobs[-1].submit
    assert jobs[-1].submit > 5 * 86400.0
    recent = [job for job in jobs if begin + job.submit > now - 5 * 86400.0]
    return [submission(job, begin + job.submit, begin + job.submit) for job in recent]


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


__all__ = ["GPUS_PER_NODE", "LOAD", "WEEK", "Weeks", "honest", "large", "sample", "submission", "weeks"]
