"""Future submissions, drawn from the past: what the same hour of the week brought in earlier weeks.

Without them a forecast says when a job starts if nothing new comes, which is too early: later jobs overtake it.

For each coming hour, each roll-out draws one hour of the past at random and plays its submissions again, at the same
minute, with the same needs and as long as they ran. Hours that were drawn together stay together, so bursts stay
bursts. Drawn are hours of the same place in the week; with less than four weeks of history, of the same time of the
day, and with less than four days any. With less than a day of it, or few jobs, nothing is drawn.

The past are the finished jobs of the history and the jobs that are in the cluster now. Without the latter, long jobs
would be missing from the last days.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from maar.forecast.draws import uniforms
from maar.forecast.forecast import DEFAULT, Options, begins_of
from maar.forecast.rollout import Arrival
from maar.forecast.start import Begin, StartState, begin
from maar.lengths.runtimes import RunTimes, Traits
from maar.model.elastic import Elastic
from maar.model.jobs import Job
from maar.model.shapes import Shape
from maar.model.snapshot import Cluster
from maar.model.tasks import Task

HOUR = 3600.0
DAY = 24
WEEK = 7 * DAY
AHEAD = 48 * HOUR
"""How far ahead submissions are drawn. Later ones seldom delay a job that waits now. Tuned by hand."""
MOST = 200
"""Submissions that a roll-out gets at most: each takes about two decisions, most of its cost. Tuned by hand."""


LIKE = 4
"""Hours that must be like a coming one; else hours that are less like it are drawn too. With one of them, all roll-outs
would get the same jobs. Tuned by hand."""
OLD = DAY * HOUR
"""The history must be at least this old for submissions to be drawn."""
ENOUGH = 20
"""Finished jobs that must be known for submissions to be drawn. Tuned by hand."""
MOST_PODS = 5000
"""A job with more pods is not drawn: history comes from tenants, and all pods are made. Tuned by hand."""


class Pods(msgspec.Struct, frozen=True, array_like=True):
    """Pods of a job that ask for the same."""

    count: int
    requests: tuple[tuple[str, int], ...]
    """Of each."""


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a job asked for. Rules on where pods may run are left out."""

    pods: tuple[Pods, ...]
    """Of an elastic job, its workers at the requested size."""
    least: int = 1
    """Pods that start together; the smallest size of an elastic job."""
    most: int = 0
    """The largest size of an elastic job; 0 for any other job."""
    priority: int = 0


class Submission(msgspec.Struct, frozen=True):
    """A job of the past, as it was submitted."""

    at: float
    queue: str
    traits: Traits
    asked: Asked
    seconds: float | None = None
    """How long it ran at its requested size; `None` if it has not ended: then a run time is drawn."""
    ended: float | None = None
    elapsed: float = 0.0
    """If it has not ended: how long it has run so far."""


def asked_by(job: Job, tasks: Sequence[Task]) -> Asked | None:
    """What a job asks for; `None` if its pods are not known."""
    elastic = job.elastic
    if elastic is not None:
        wanted = min(elastic.requested or elastic.min, elastic.max)
        return Asked((Pods(wanted, elastic.shape.requests),), elastic.min, elastic.max, job.priority)
    pods = Counter(task.shape.requests for task in tasks)
    if not pods:
        return None
    return Asked(tuple(Pods(n, one) for one, n in sorted(pods.items())), job.min_member, priority=job.priority)


def present(begins: Sequence[Begin], tasks: Sequence[Task]) -> list[Submission]:
    """The jobs that are in the cluster, as submissions."""
    members: dict[str, list[Task]] = {}
    for task in tasks:
        members.setdefault(task.job, []).append(task)
    found = []
    for one in begins:
        job, mine = one.job, members.get(one.job.key, [])
        asked = asked_by(job, mine) if one.state is not StartState.OVER and not any(t.resident for t in mine) else None
        if asked is not None and job.queue:
            found.append(Submission(job.created, job.queue, one.traits, asked, elapsed=one.elapsed))
    return found


def are_enough(past: Iterable[Submission], now: float) -> bool:
    """Whether there is enough history to draw submissions from it."""
    ends = [one.ended for one in past if one.ended is not None and one.ended < now]
    return len(ends) >= ENOUGH and min(ends) <= now - OLD


class Arrivals:
    """The submissions that roll-outs get, drawn hour by hour as a roll-out comes to it.

    The past begins when the first known job ended: from then on, the history has all jobs that ended. Nothing is used
    that was submitted at or after `now`. Draws depend on the seed, the hour and the roll-out only, so two forecasts of
    one moment get the same submissions. A job of unknown run time is left out: it would run for ever.
    """

    def __init__(
        self,
        past: Iterable[Submission],
        now: float,
        run_times: RunTimes,
        *,
        rollouts: int,
        seed: int = 0,
        ahead: float = AHEAD,
        most: int = MOST,
    ) -> None:
        self._now, self._run_times, self._rollouts, self._seed, self._ahead = now, run_times, rollouts, seed, ahead
        self._most = most
        known = sorted((one for one in past if one.at < now), key=lambda one: one.at)
        began = min((one.ended for one in known if one.ended is not None), default=-math.inf)
        self._by_hour: dict[int, list[Submission]] = {}
        for one in known:
            if one.at >= began:
                self._by_hour.setdefault(math.floor(one.at / HOUR), []).append(one)

    def of(self, number: int) -> Iterator[Arrival]:
        """What comes in one roll-out, in order of time."""
        return islice(self._drawn(number), self._most)

    def _drawn(self, number: int) -> Iterator[Arrival]:
        now, until = self._now, self._now + self._ahead
        if not self._by_hour:
            return
        first, last = min(self._by_hour), math.floor(now / HOUR) - 1
        if first > last:
            return  # the present hour is not over, so it is like no other
        for hour in range(math.floor(now / HOUR), math.floor(until / HOUR) + 1):
            like = hours_like(hour, first, last)
            drawn = like[int(uniforms(self._seed, f"hour {hour}", self._rollouts)[number] * len(like))]
            for place, one in enumerate(self._by_hour.get(drawn, ())):
                at = one.at + (hour - drawn) * HOUR
                if now < at <= until:
                    made = _arrival(one, at, f"arrival-{number}-{hour}-{place}", self._run_times, self._seed)
                    if made is not None:
                        yield made


def arrivals_for(
    cluster: Cluster,
    past: Sequence[Submission],
    now: float,
    run_times: RunTimes,
    *,
    options: Options = DEFAULT,
    categories: Mapping[str, str] | None = None,
) -> Callable[[int], Iterable[Arrival]] | None:
    """What comes to a cluster in each roll-out; `None` if there is too little history.

    The jobs of the cluster count as submissions too. A what-if question gives both scenes what comes to the first one.
    """
    if not are_enough(past, now):
        return None
    known = [*past, *present(list(begins_of(cluster, now, categories).values()), cluster.tasks)]
    return Arrivals(known, now, run_times, rollouts=options.rollouts, seed=options.seed).of


def hours_like(hour: int, first: int, last: int) -> list[int]:
    """The whole hours from `first` to `last` that are like an hour: in the week, else in the day, else all of them.

    An hour without submissions counts like any other.
    """
    like: list[int] = []
    for period in (WEEK, DAY, 1):
        like = [h for h in range(hour - period, first - 1, -period) if h <= last]
        if len(like) >= LIKE:
            break
    return like


def _arrival(one: Submission, at: float, name: str, run_times: RunTimes, seed: int) -> Arrival | None:
    key = f"{one.traits.owner}/{one.traits.stem}-{name}"
    seconds = one.seconds
    if seconds is None:
        seconds = run_times.seconds(one.traits, uniforms(seed, key, 1)[0], one.elapsed)
    asked = one.asked
    count = sum(part.count for part in asked.pods)
    if seconds is None or not 0 < count <= MOST_PODS:
        return None
    job = Job(key, one.queue, asked.least, priority=asked.priority, created=at, promise=one.traits.limit)
    tasks: tuple[Task, ...] = ()
    if asked.most:
        shape = Shape(requests=asked.pods[0].requests)
        elastic = Elastic(asked.least, asked.most, shape, size=count, requested=count, suspended=True)
        job = msgspec.structs.replace(job, elastic=elastic)
    else:
        shapes = [Shape(requests=part.requests) for part in asked.pods for _ in range(part.count)]
        tasks = tuple(
            Task(f"{key}-{i}", key, shape, index=i, priority=asked.priority, created=at, controlled=True)
            for i, shape in enumerate(shapes)
        )
    return Arrival(at, job, tasks, begin(job, tasks, at), seconds)
