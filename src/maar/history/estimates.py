"""Estimates for decisions, from the model: the speed-up of a job and its remaining time.

The speed-up comes from the first of these that is known:

1. the goodput by size that the job itself reported (an adaptive framework knows it);
2. step times fitted to its category, with the noise scale of the job, else of its category: goodput;
3. step times fitted to its category: throughput;
4. the measured points of its category.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

import msgspec

from maar.elastic.speedup import LINEAR, Curve, curve
from maar.elastic.steps import TRUSTED, Basis, Steps, learnt
from maar.history.model import JOBS, WITHIN, Key, Model
from maar.history.progress import Progress

FINE = 16
"""Sizes up to this one are all taken from a reported goodput; above it, only reported ones."""


class Speeds(msgspec.Struct, frozen=True):
    """What decisions know about the speed of a job."""

    points: tuple[tuple[int, float], ...] = ()
    """Workers, and speed-up; empty is linear."""
    measured: int = 0
    """The largest size at which it was measured."""
    basis: Basis = Basis.NOTHING


class _Known(NamedTuple):
    """What the speeds of a job are made from."""

    points: Mapping[int, float]
    steps: Steps | None
    noise: float | None
    goodput: tuple[tuple[int, float], ...]
    largest: int

    def is_same(self, other: _Known) -> bool:
        return self.points is other.points and self.steps is other.steps and self[2:] == other[2:]


class Estimates:
    """The estimates of one model; they are computed again only when something changes."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._made: dict[tuple[str, Key], tuple[_Known, Speeds]] = {}

    def speeds(self, key: Key, name: str = "") -> Speeds:
        """The speed-up of a job (`namespace/name`), or of any job of the key without a name."""
        job = self._model.job(name) or Progress()
        source = self._model.source(key)
        noise = job.noise if job.noise is not None else self._model.noise(key[0])
        points = self._model.points_for(key)
        known = _Known(points, self._model.steps(source), noise, job.goodput, job.largest if job.goodput else 0)
        made = self._made.get((name, key))
        if made is None or not made[0].is_same(known):
            if len(self._made) > 2 * JOBS:
                self._made.clear()
            made = self._made[name, key] = (known, _speeds(known))
        return made[1]

    def curve(self, key: Key, name: str = "") -> Curve:
        """A monotone and concave curve through these speeds; linear if nothing is known."""
        points = self.speeds(key, name).points
        return curve(dict(points)) if points else LINEAR

    def remaining(self, name: str, category: str, accelerator: str, total: int | None) -> float | None:
        """Epochs left multiplied by the seconds of an epoch on one worker; None if unknown.

        The number of epochs is what the job reported, else `total`, else the median of its category. The seconds come
        from the job's own epochs, each multiplied by the speed-up of its size, else from its category on any
        accelerator.
        """
        job = self._model.job(name) or Progress()
        key = (category or job.category, accelerator or job.accelerator)
        left = job.left(self._model.total_epochs(key[0]) if total is None else total)
        alone = self._alone(key, name, job)
        return None if left is None or alone is None else left * alone

    def _alone(self, key: Key, name: str, job: Progress) -> float | None:
        if job.epochs:
            return median(m.seconds * self._speed(key, name, m.workers) for m in job.epochs)
        for k in (key, *self._model.kin(key[0])):
            times = self._model.epoch_times(k)
            if times:
                smallest = min(times)
                return times[smallest] * self._speed(k, "", smallest)
        return None

    def _speed(self, key: Key, name: str, workers: int) -> float:
        return float(self.curve(key, name).values(workers)[workers])


def _speeds(known: _Known) -> Speeds:
    measured = max(known.points, default=0)
    if known.goodput:
        measured = max(measured, known.largest)
        return Speeds(_within(_believed(known.goodput, measured)), measured, Basis.GOODPUT)
    points, basis = learnt(known.points, known.steps, known.noise)
    return Speeds(_within(points), measured, basis)


def _believed(goodput: tuple[tuple[int, float], ...], measured: int) -> dict[int, float]:
    """A reported goodput relative to one worker, at most linear, up to `TRUSTED` times the largest measured size."""
    most = TRUSTED * measured
    values = curve(dict(goodput)).values(most)
    sizes = {*range(1, min(most, FINE) + 1), *(n for n, _ in goodput if n <= most), most}
    found = {n: float(values[n] / values[1]) for n in sorted(sizes)}
    found[most + 1] = found[most]
    return found


def _within(points: Mapping[int, float]) -> tuple[tuple[int, float], ...]:
    slowest, fastest = WITHIN
    return tuple((n, min(max(speed, slowest), fastest)) for n, speed in sorted(points.items()))
