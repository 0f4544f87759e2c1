"""The jobs of a live cluster at the start of a forecast: which of them run, which wait, and how much work is done.

Also brings the cluster to the state from which roll-outs begin: pods that are being deleted are gone, and operators
have created the workers that elastic jobs were given.
"""

from __future__ import annotations

import enum
from itertools import chain, repeat

import msgspec

from maar.elastic.speedup import curve
from maar.lengths.runtimes import Traits
from maar.lengths.traits import gpus_of, traits_of
from maar.model.elastic import Elastic
from maar.model.jobs import Job, Phase
from maar.model.minimum import has_minimum
from maar.model.outcome import carry_out
from maar.model.plan import Nominate, Plan, Reserve
from maar.model.resources import PODS
from maar.model.shapes import Shape
from maar.model.snapshot import Cluster
from maar.model.tasks import READY, Status, Subgroup, Task


class StartState(enum.StrEnum):
    WAITING = "waiting"
    """It lacks part of its minimum."""
    RUNNING = "running"
    OVER = "over"


class Begin(msgspec.Struct, frozen=True):
    """One job at the start of a forecast."""

    job: Job
    state: StartState
    traits: Traits
    elapsed: float
    """Seconds that it has run, at its requested size."""
    size: int
    """Workers that make progress now; a gang counts as one."""
    speeds: tuple[float, ...]
    """Its speed at each size, relative to one worker; a gang runs or does not."""

    @property
    def reference(self) -> float:
        """Its speed at the requested size."""
        elastic = self.job.elastic
        return 1.0 if elastic is None else self.speeds[min(elastic.requested or elastic.min, elastic.max)]


def settled(cluster: Cluster, now: float) -> Cluster:
    """The cluster without pods that are being deleted, and with all pods of elastic jobs."""
    keep = Plan(
        nominate=tuple(Nominate(t.key, t.node) for t in cluster.tasks if t.status is Status.NOMINATED),
        reserve=tuple(
            Reserve.at(j.key, place, n) for j in cluster.jobs if j.elastic for place, n in j.elastic.reserved
        ),
        elect=cluster.elect,
        locks=cluster.locks,
        facts=cluster.facts,
    )
    return carry_out(cluster, keep, now)


def begin(job: Job, tasks: tuple[Task, ...], now: float, category: str = "") -> Begin:
    """The state of one job. `category` is what the history calls it."""
    speeds = speeds_of(job)
    size = size_of(job, tasks)
    traits = traits_of(job, tasks, category)
    if job.phase is Phase.COMPLETED or (tasks and all(t.status in (Status.SUCCEEDED, Status.FAILED) for t in tasks)):
        return Begin(job, StartState.OVER, traits, 0.0, 0, speeds)
    state = StartState.RUNNING if size else StartState.WAITING
    elapsed = _elapsed(job, tasks, size, speeds, now)
    return Begin(job, state, traits, elapsed, size, speeds)


def speeds_of(job: Job) -> tuple[float, ...]:
    if job.elastic is None:
        return (0.0, 1.0)
    values: list[float] = curve(dict(job.elastic.speedup)).values(job.elastic.max).tolist()
    return tuple(values)


def size_of(job: Job, tasks: tuple[Task, ...]) -> int:
    """The workers that make progress: none without the minimum; a gang counts as one."""
    bound = [task for task in tasks if task.status is Status.BOUND]
    if not bound or not has_minimum(job, [task for task in tasks if task.status in READY]):
        return 0
    if job.elastic is None:
        return 1
    return min(sum(task.role == job.elastic.role for task in bound), job.elastic.max)


def made_pods(job: Job, now: float) -> tuple[Task, ...]:
    """The pods of an admitted group whose operator has not created them: its declared minimum in equal parts."""
    roles = [role for role, least in job.role_minimums.items() for _ in range(least)]
    parts = [
        Subgroup(policy, (str(number),))
        for policy, rule in enumerate(job.subgroups)
        for number in range(rule.least)
        for _ in range(rule.size)
    ]
    count = max(job.min_member, len(parts), 1)
    amounts = {name: -(-amount // count) for name, amount in (job.min_resources or {}).items() if amount > 0}
    shape = Shape(requests=tuple(sorted({**amounts, PODS: 1}.items())))
    return tuple(
        Task(
            f"{job.key}-forecast-{i}",
            job.key,
            shape,
            role=role,
            index=i,
            priority=job.priority,
            created=now,
            controlled=True,
            subgroup=part,
        )
        for i, role, part in zip(range(count), chain(roles, repeat("")), chain(parts, repeat(None)), strict=False)
    )


def _elapsed(job: Job, tasks: tuple[Task, ...], size: int, speeds: tuple[float, ...], now: float) -> float:
    if job.elastic is None:
        started = [task.started for task in tasks if task.status is Status.BOUND and task.started is not None]
        return max(now - min(started), 0.0) if size and started else 0.0
    return _attained(job.elastic, size, now) * _efficiency(job.elastic, size, speeds)


def _attained(elastic: Elastic, size: int, now: float) -> float:
    """Worker seconds that an elastic job has used."""
    past, gpus = elastic.past, max(gpus_of(elastic.shape), 1)
    since = 0.0 if past.counted is None or not size else max(now - past.counted, 0.0)
    return past.attained / gpus + since * size


def _efficiency(elastic: Elastic, size: int, speeds: tuple[float, ...]) -> float:
    """Seconds at the requested size that one worker second is worth, at the current size."""
    wanted = min(elastic.requested or elastic.min, elastic.max)
    at = size or wanted
    return speeds[at] / max(at, 1) / speeds[wanted]
