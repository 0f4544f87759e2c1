"""What `maar web` sends to the forecasting process, and what comes back.

Snapshots go as pickles, in parts: encoding one part takes some milliseconds, and the event loop goes on in between.
One pickler writes all of them, so that what pods share is sent once. Pickles only go from `maar web` to its own child.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import msgspec
from msgspec.structs import replace

from maar.config.config import Config
from maar.forecast.arrivals import Submission
from maar.forecast.forecast import ROLLOUTS, Forecast
from maar.forecast.runtimes import Sample
from maar.model.snapshot import Cluster
from maar.whatif.edit import Scene

PART = 500
"""Pods, jobs or finished jobs of one part: a few milliseconds. Tuned by hand."""


class Head(msgspec.Struct, frozen=True):
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


class Question(msgspec.Struct, frozen=True):
    """One or more scenes to forecast; the futures of each are the same."""

    head: Head
    scenes: tuple[Scene, ...]
    samples: Sequence[Sample] = ()
    categories: Mapping[str, str] = {}
    past: Sequence[Submission] = ()
    """The submissions of finished jobs, of which later ones are drawn."""


class Answer(msgspec.Struct, frozen=True):
    """The forecasts, one for each scene."""

    forecasts: tuple[Forecast, ...]
    places: dict[str, int] = {}
    seconds: float = 0.0
    """Time for the roll-outs."""
    memory: int = 0
    """The most bytes that the process had in memory."""
    cpu: float = 0.0
    """CPU seconds of the process."""


def parts_of(question: Question) -> Iterator[bytes]:
    """The question as bytes, each part within milliseconds."""
    out = io.BytesIO()
    pickler = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)

    def part(item: Any) -> bytes:
        pickler.dump(item)
        data = out.getvalue()
        out.seek(0)
        out.truncate()
        return data

    yield part((question.head, len(question.scenes), dict(question.categories)))
    for scene in question.scenes:
        cluster = scene.cluster
        yield part((scene.config, replace(cluster, jobs=(), tasks=(), nodes=())))
        for items in (cluster.nodes, cluster.jobs, cluster.tasks):
            yield from map(part, _cut(items))
    for learned in (question.samples, question.past):
        yield from map(part, _cut(learned))


def read(source: BinaryIO) -> Question:
    """The question, from the bytes of its parts."""
    unpickler = pickle.Unpickler(source)

    def all_parts() -> tuple[Any, ...]:
        found: list[Any] = []
        while part := unpickler.load():
            found += part
        return tuple(found)

    head, count, categories = unpickler.load()
    scenes = []
    for _ in range(count):
        config, cluster = unpickler.load()
        scenes.append(_scene(config, cluster, all_parts(), all_parts(), all_parts()))
    samples, past = all_parts(), all_parts()
    return Question(head, tuple(scenes), samples, categories, past)


def _scene(config: Config, cluster: Cluster, nodes: Any, jobs: Any, tasks: Any) -> Scene:
    return Scene(replace(cluster, nodes=nodes, jobs=jobs, tasks=tasks), config)


def _cut(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The items in parts, and an empty part at the end."""
    for start in range(0, len(items), PART):
        yield items[start : start + PART]
    yield ()
