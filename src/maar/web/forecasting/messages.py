"""What `maar web` sends to its children, and what comes back from the forecasting process.

Snapshots go as pickles, in parts: encoding one part takes some milliseconds, and the event loop goes on in between.
One pickler writes all of them, so that what pods share is sent once. Pickles only go between `maar web` and its own
children.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import msgspec
from msgspec.structs import replace

from maar.forecast.arrivals import Submission
from maar.forecast.forecast import ROLLOUTS, Forecast
from maar.lengths.runtimes import RunSample
from maar.model.plan import Plan
from maar.whatif.edit import Scene

PART = 500
"""Pods, jobs or finished jobs of one part: a few milliseconds. Tuned by hand."""


class QuestionHead(msgspec.Struct, frozen=True):
    """What is asked for."""

    now: float
    budget: float
    """Seconds for all roll-outs."""
    rollouts: int = ROLLOUTS
    seed: int = 0
    adapts: bool = False
    """Whether fewer roll-outs are chosen so that all scenes get as many within the budget."""
    places: bool = False
    """Whether the places of waiting jobs in their queues are wanted."""


class ForecastQuestion(msgspec.Struct, frozen=True):
    """One or more scenes to forecast; the futures of each are the same."""

    head: QuestionHead
    scenes: tuple[Scene, ...]
    samples: Sequence[RunSample] = ()
    categories: Mapping[str, str] = {}
    past: Sequence[Submission] = ()
    """The submissions of finished jobs, of which later ones are drawn."""


class ForecastAnswer(msgspec.Struct, frozen=True):
    """The forecasts, one for each scene."""

    forecasts: tuple[Forecast, ...]
    places: dict[str, int] = {}
    seconds: float = 0.0
    """Time for the roll-outs."""
    memory: int = 0
    """The most bytes that the process had in memory."""
    cpu: float = 0.0
    """CPU seconds of the process."""


class Parts:
    """Objects as bytes, a part at a time. What was sent before is not sent again."""

    def __init__(self) -> None:
        self._out = io.BytesIO()
        self._pickler = pickle.Pickler(self._out, pickle.HIGHEST_PROTOCOL)

    def part(self, item: Any) -> bytes:
        self._pickler.dump(item)
        data = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return data

    def scene(self, scene: Scene) -> Iterator[bytes]:
        cluster = scene.cluster
        yield self.part(replace(scene, cluster=replace(cluster, jobs=(), tasks=(), nodes=())))
        for items in (cluster.nodes, cluster.jobs, cluster.tasks):
            yield from map(self.part, _cut(items))

    def plan(self, at: float | None, plan: Plan | None) -> Iterator[bytes]:
        """The plan of a time; nothing in its place if it is not known."""
        yield self.part((at, None if plan is None else replace(plan, waiting=())))
        yield from map(self.part, _cut(() if plan is None else plan.waiting))


def parts_of(question: ForecastQuestion) -> Iterator[bytes]:
    """The question as bytes, each part within milliseconds."""
    parts = Parts()
    yield parts.part((question.head, len(question.scenes), dict(question.categories)))
    for scene in question.scenes:
        yield from parts.scene(scene)
    for learned in (question.samples, question.past):
        yield from map(parts.part, _cut(learned))


def read(source: BinaryIO) -> ForecastQuestion:
    """The question, from the bytes of its parts."""
    unpickler = pickle.Unpickler(source)  # noqa: S301 from our own process
    head, count, categories = unpickler.load()
    scenes = tuple(read_scene(unpickler) for _ in range(count))
    samples, past = _all_parts(unpickler), _all_parts(unpickler)
    return ForecastQuestion(head, scenes, samples, categories, past)


def read_scene(unpickler: pickle.Unpickler) -> Scene:
    """A scene, from the bytes of its parts."""
    scene: Scene = unpickler.load()
    nodes, jobs, tasks = (_all_parts(unpickler) for _ in range(3))
    return replace(scene, cluster=replace(scene.cluster, nodes=nodes, jobs=jobs, tasks=tasks))


def read_plan(unpickler: pickle.Unpickler) -> tuple[float | None, Plan | None]:
    """A plan and its time, from the bytes of its parts."""
    at, plan = unpickler.load()
    waiting = _all_parts(unpickler)
    return at, None if plan is None else replace(plan, waiting=waiting)


def _all_parts(unpickler: pickle.Unpickler) -> tuple[Any, ...]:
    found: list[Any] = []
    while part := unpickler.load():
        found += part
    return tuple(found)


def _cut(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The items in parts, and an empty part at the end."""
    for start in range(0, len(items), PART):
        yield items[start : start + PART]
    yield ()
