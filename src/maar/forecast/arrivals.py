"""Future submissions, drawn from the past: what the same hour of the week brought in earlier weeks.

Forecasts leave them out by default: a forecast then says when a job starts if nothing new comes. With them, a second
figure says when it starts if the coming hours are like those before.

For each coming hour, each roll-out draws one hour of the past at random and plays its submissions again, at the same
minute and with the same needs. Hours that were drawn together stay together, so bursts stay bursts. Drawn are hours of
the same place in the week; with less than a week of history, of the same time of the day; with less than a day, any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from maar.forecast.draws import uniforms
from maar.forecast.rollout import Arrival
from maar.forecast.runtimes import RunTimes, Traits
from maar.forecast.start import begin
from maar.model.elastic import Elastic
from maar.model.jobs import Job
from maar.model.shapes import Shape
from maar.model.tasks import Task

HOUR = 3600.0
DAY = 24
WEEK = 7 * DAY
AHEAD = 48 * HOUR
"""How far ahead submissions are drawn. Later ones seldom delay a job that waits now. Tuned by hand."""


class Submission(msgspec.Struct, frozen=True):
    """A job of the past, as it was submitted."""

    at: float
    queue: str
    traits: Traits
    workers: int
    """At the requested size."""
    requests: tuple[tuple[str, int], ...]
    """Of one worker."""
    priority: int = 0
    least: int = 0
    """The smallest and largest size of an elastic job; 0 for any other job."""
    most: int = 0


def arrivals(
    past: Sequence[Submission],
    now: float,
    run_times: RunTimes,
    *,
    rollouts: int,
    seed: int = 0,
    ahead: float = AHEAD,
) -> list[list[Arrival]]:
    """The submissions that each roll-out gets. Uses nothing that was submitted at or after `now`.

    Draws depend on the seed, the hour and the roll-out only, so two forecasts of one moment get the same submissions.
    A job of unknown run time is left out: it would run for ever.
    """
    by_hour: dict[int, list[Submission]] = {}
    for one in sorted((s for s in past if s.at < now), key=lambda s: s.at):
        by_hour.setdefault(math.floor(one.at / HOUR), []).append(one)
    if not by_hour:
        return [[] for _ in range(rollouts)]
    first, last = min(by_hour), math.floor(now / HOUR) - 1
    found: list[list[Arrival]] = [[] for _ in range(rollouts)]
    for hour in range(math.floor(now / HOUR), math.floor((now + ahead) / HOUR) + 1):
        like = hours_like(hour, first, last) or list(by_hour)
        for number, u in enumerate(uniforms(seed, f"hour {hour}", rollouts)):
            drawn = like[int(u * len(like))]
            for place, one in enumerate(by_hour.get(drawn, ())):
                at = one.at + (hour - drawn) * HOUR
                if now < at <= now + ahead:
                    made = _arrival(one, at, f"arrival-{number}-{hour}-{place}", run_times, seed)
                    found[number].extend(() if made is None else (made,))
    return found


def hours_like(hour: int, first: int, last: int) -> list[int]:
    """The whole hours from `first` to `last` that are like an hour: in the week, else in the day, else all of them.

    An hour without submissions counts like any other.
    """
    for period in (WEEK, DAY, 1):
        like = [h for h in range(hour - period, first - 1, -period) if h <= last]
        if like:
            return like
    return []


def _arrival(one: Submission, at: float, name: str, run_times: RunTimes, seed: int) -> Arrival | None:
    key = f"{one.traits.owner}/{one.traits.stem}-{name}"
    seconds = run_times.seconds(one.traits, uniforms(seed, key, 1)[0])
    if seconds is None:
        return None
    shape = Shape(requests=tuple(sorted(one.requests)))
    job = Job(key, one.queue, one.workers, priority=one.priority, created=at, promise=one.traits.limit)
    tasks: tuple[Task, ...] = ()
    if one.least < one.most:
        elastic = Elastic(one.least, one.most, shape, size=one.workers, requested=one.workers, suspended=True)
        job = msgspec.structs.replace(job, min_member=one.least, elastic=elastic)
    else:
        tasks = tuple(
            Task(f"{key}-{i}", key, shape, index=i, priority=one.priority, created=at, controlled=True)
            for i in range(one.workers)
        )
    return Arrival(at, job, tasks, begin(job, tasks, at), seconds)
