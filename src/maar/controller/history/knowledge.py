"""From the history to decisions: adds measurements to elastic jobs, and triggers a cycle when they change.

The history receives epochs all the time, and each could change the size of a job. So news are gathered for some
seconds; then every elastic job is checked, and a cycle is triggered only if the knowledge about one has changed. While
the database is away, the last knowledge stays.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from msgspec.structs import replace

from maar.elastic.speedup import curve
from maar.history.category import CATEGORY, category_of, scoped
from maar.history.history import History
from maar.kube.picture.owners import Owner
from maar.kube.picture.picture import Picture
from maar.kube.read.knowledge import Learnt, Who
from maar.lengths.runtimes import WorkOnOne
from maar.lengths.traits import traits_of
from maar.model.jobs import Job
from maar.model.lengths import Estimate
from maar.model.tasks import Task


def learnt_from(history: History, who: Who) -> Learnt:
    """What a history knows about a job."""
    category = scoped(who.namespace, who.category) or category_of(who.namespace, who.name)
    name = f"{who.namespace}/{who.name}"
    left = history.remaining(name, category, who.accelerator, who.epochs)
    speeds = history.speeds(name, category, who.accelerator)
    return Learnt(
        speedup=speeds.points,
        measured=speeds.measured,
        remaining=math.inf if left is None else left,
        restart=history.restart(category, who.accelerator),
        length=_length(history, who, speeds.points),
        kind=history.run_times.kind(who.traits),
    )


def _length(history: History, who: Who, points: tuple[tuple[int, float], ...]) -> Estimate | None:
    """All the work of a job, by the runs of similar jobs. As for gangs, only a stated category counts as one."""
    traits = replace(who.traits, category=scoped(who.namespace, who.category))
    speeds: list[float] = curve(dict(points)).values(who.most).tolist()
    each = who.traits.gpus // max(who.requested, 1)
    return history.run_times.estimate(traits, WorkOnOne(tuple(speeds), each, who.requested))


def length_of(history: History, picture: Picture, job: Job, tasks: tuple[Task, ...]) -> Estimate | None:
    """How long a job runs, by the runs of similar jobs."""
    return history.run_times.estimate(traits_of(job, tasks, stated_category(picture, job.key)))


def stated_category(picture: Picture, key: str) -> str:
    """The category that the owner of a job states on the object that she submitted, or on its PodGroup or pod."""
    owner, group = picture.owner_of(key), picture.group_of(key)
    items = (owner.item if isinstance(owner, Owner) else None, None if group is None else group.item, picture.pod(key))
    for item in items:
        if item is not None:
            for notes in (item.metadata.annotations, item.metadata.labels):
                if found := notes.get(CATEGORY):
                    return scoped(key.partition("/")[0], found)
    return ""


class Learner:
    """Checks for news at a limited rate."""

    def __init__(self, learn: Callable[[], bool], trigger: Callable[[], None], every: float) -> None:
        """`learn` updates the jobs, and returns whether anything changed for decisions."""
        self._look = learn
        self._trigger = trigger
        self._every = every
        self._last = -math.inf
        self._due: asyncio.TimerHandle | None = None

    def news(self) -> None:
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_later(max(self._last + self._every - loop.time(), 0.0), self._learn)

    def close(self) -> None:
        if self._due is not None:
            self._due.cancel()

    def _learn(self) -> None:
        self._due = None
        self._last = asyncio.get_running_loop().time()
        if self._look():
            self._trigger()
