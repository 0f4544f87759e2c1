"""Estimates for decisions, from the model: the speed-up curve of a job and its remaining time."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from maar.elastic.speedup import Curve, curve
from maar.history.model import Key, Model
from maar.history.progress import Progress


class Estimates:
    """The estimates of one model; a curve is computed again only when its points change."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._curves: dict[Key, tuple[Mapping[int, float], Curve]] = {}

    def curve(self, key: Key) -> Curve:
        """A monotone and concave curve through the best known points; linear without points."""
        points = self._model.points_for(key)
        made = self._curves.get(key)
        if made is None or made[0] is not points:
            made = self._curves[key] = (points, curve(points))
        return made[1]

    def remaining(self, name: str, category: str, accelerator: str, total: int | None) -> float | None:
        """Epochs left multiplied by the seconds of an epoch on one worker; None if unknown.

        The number of epochs is what the job reported, else `total`, else the median of its category. The seconds come
        from the job's own epochs, each multiplied by the speed-up of its size, else from its category on any
        accelerator.
        """
        job = self._model.job(name) or Progress()
        key = (category or job.category, accelerator or job.accelerator)
        left = job.left
        if left is None:
            total = total if total is not None else self._model.total_epochs(key[0])
            left = None if total is None else max(0, total - (0 if job.epoch is None else job.epoch + 1))
        alone = self._alone(key, job)
        return None if left is None or alone is None else left * alone

    def _alone(self, key: Key, job: Progress) -> float | None:
        if job.epochs:
            return median(m.seconds * self._speed(key, m.workers) for m in job.epochs)
        for k in (key, *self._model.kin(key[0])):
            times = self._model.epoch_times(k)
            if times:
                smallest = min(times)
                return times[smallest] * self._speed(k, smallest)
        return None

    def _speed(self, key: Key, workers: int) -> float:
        return float(self.curve(key).values(workers)[workers])
