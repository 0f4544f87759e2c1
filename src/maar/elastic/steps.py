"""Step times: the parametric form of a speed-up, from what jobs measured.

A step on `n` workers, `k` of them on each of `m` nodes, with a batch of `b` samples for each worker, takes

    fixed + sample b + (inside + beside (k - 1) if k > 1) + (across + beyond (m - 1) if m > 1)

seconds: compute, communication inside a node, and communication between nodes. All six numbers are at least 0, so no
speed-up is more than linear. They are fitted by least squares of relative errors, with less weight for outliers; the
form is linear in them, so there is one best answer. Where the data do not tell two of them apart, both get a part.

A job trains with a fixed batch for each worker or with a fixed global batch, whichever its measurements show. With a
noise scale, goodput replaces throughput: a sample of a larger global batch is worth less (Pollux, OSDI 2021).

History and the simulator use it; it does not know where the measurements come from.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import msgspec
import numpy as np
import numpy.typing as npt

from maar.elastic.speedup import Floats

Mask = npt.NDArray[np.bool_]

TRUSTED = 2
"""A fit is trusted up to this multiple of the largest measured size."""
ENOUGH = 3
"""Different measured settings (workers, nodes, batch) from which on a fit is used: two only repeat their points."""
USABLE = 0.2
"""The largest relative error of a fit that is used; with a larger one the form is wrong. Tuned by hand."""
OUTLIER = 0.1
"""Relative errors above this one count linearly, not squared. Tuned by hand."""
ROUNDS = 10
"""How often outliers are weighed again. Tuned by hand."""
RIDGE = 0.01
"""Weight against large numbers, relative to the data: decides only where the data do not. Tuned by hand."""
EPOCHS = 9
"""Epochs of one setting after which more add no weight. Tuned by hand."""
DOUBT = 2
"""Epochs at one size for which its own median counts half, and the fit half. Tuned by hand."""
WIDEST = 1e9
"""The largest ratio of two times that is believed. Any client may report a step of almost 0 seconds."""
FINE = 16
"""Sizes up to this one are all computed; above it, each is about an eighth larger. Tuned by hand."""


class Basis(enum.StrEnum):
    """What a speed-up is made from."""

    NOTHING = "nothing"
    POINTS = "measured points"
    STEPS = "fitted step times"
    NOISE = "fitted step times and the noise scale"
    GOODPUT = "the job's own goodput"


class MeasuredSteps(msgspec.Struct, frozen=True):
    """What was measured in one setting."""

    workers: int
    seconds: float
    """Seconds for a unit of work of the whole job: an epoch, a sample, or anything that is the same for all sizes."""
    nodes: int = 0
    """0 if unknown."""
    batch: float = 0.0
    """Samples per worker and step; 0 if unknown."""
    epochs: int = 1
    """How many epochs are behind it."""


class Steps(msgspec.Struct, frozen=True):
    """A fit, made by `fit`. Its numbers are seconds, up to the common factor of the unit of work."""

    fixed: float
    sample: float
    inside: float
    beside: float
    across: float
    beyond: float
    batch: float
    """Samples per worker and step; if `is_global`, of all workers together. 1 if unknown."""
    is_global: bool
    """Whether the global batch stays the same at all sizes."""
    dense: int
    """The most workers that were seen on one node; 0 if unknown. Larger sizes are predicted on as few nodes."""
    smallest: int
    measured: int
    """The smallest and the largest measured size."""
    settings: int
    """Different settings behind it."""
    epochs: int
    error: float
    """Typical relative error: the root of the mean square, with outliers weighed as in the fit."""
    has_batch: bool = False
    """Whether the batch is known. Without it a noise scale says nothing."""
    own: tuple[tuple[int, float], ...] = ()
    """By measured size: the part of the fitted worker seconds that was measured, as far as its epochs are believed."""

    @property
    def why_not(self) -> str:
        """Why measured points are better than this fit; empty if they are not."""
        if self.settings < ENOUGH:
            return f"needs {ENOUGH} settings"
        return f"error above {USABLE:.0%}" if self.error > USABLE else ""

    @property
    def is_usable(self) -> bool:
        return not self.why_not

    def speeds(self, noise: float | None = None) -> dict[int, float]:
        """The speed-up by size, up to `TRUSTED` times the largest measured size; beyond that, no gain.

        Sizes above a node are whole nodes, which have no gaps.
        """
        sizes = np.array(self._sizes(), dtype=np.float64)
        cost = self._cost(np.maximum(sizes, self.smallest))  # linear below the smallest measured size
        cost = np.maximum(cost, cost.max() / WIDEST)
        if self.own:
            measured, parts = zip(*self.own, strict=True)
            cost = cost * np.exp(np.interp(np.log(sizes), np.log(measured), np.log(parts)))
        if noise is not None and self.has_batch:
            cost = cost * (noise + self._global(sizes))
        speeds = sizes * np.minimum(cost[0] / cost, 1.0)
        found = dict(zip(sizes.astype(int).tolist(), speeds.tolist(), strict=True))
        found[int(sizes[-1]) + 1] = max(speeds.tolist())
        return found

    def shares(self) -> tuple[float, float, float]:
        """The parts of a step at the largest measured size: compute, inside nodes, between nodes."""
        workers = np.array([float(self.measured)])
        parts = (self._columns_at(workers)[0] * self._numbers()).tolist()
        whole = sum(parts) or 1.0
        return sum(parts[:2]) / whole, sum(parts[2:4]) / whole, sum(parts[4:]) / whole

    def _sizes(self) -> list[int]:
        most = TRUSTED * self.measured
        node = self.dense if 0 < self.dense < most else most
        sizes = list(range(1, min(FINE, node) + 1))
        for step, end in ((1, node), (node, most)):
            while sizes[-1] < end:
                sizes.append(min(sizes[-1] + step * max(sizes[-1] // (step * 8), 1), end))
        return sizes

    def _cost(self, workers: Floats) -> Floats:
        """Worker seconds per unit of work, at each size."""
        cost: Floats = self._columns_at(workers) @ self._numbers()
        return cost

    def _columns_at(self, workers: Floats) -> Floats:
        nodes = np.ceil(workers / self.dense) if self.dense else np.ones(len(workers))
        return _columns(workers, nodes, self._global(workers) / workers)

    def _numbers(self) -> Floats:
        return np.array((self.fixed, self.sample, self.inside, self.beside, self.across, self.beyond))

    def _global(self, workers: Floats) -> Floats:
        """Samples per step of all workers, at each size."""
        return np.full(len(workers), self.batch) if self.is_global else self.batch * workers


def learnt(
    points: Mapping[int, float], steps: Steps | None, noise: float | None = None
) -> tuple[Mapping[int, float], Basis]:
    """The speed-up by size that decisions use: from fitted step times if they are good, else the measured points.

    `points` and `steps` come from the same measurements.
    """
    if steps is not None and noise is not None and steps.has_batch and steps.error <= USABLE:
        return steps.speeds(noise), Basis.NOISE
    if steps is not None and steps.is_usable:
        return steps.speeds(), Basis.STEPS
    return points, Basis.POINTS if points else Basis.NOTHING


def fit(seen: Iterable[MeasuredSteps]) -> Steps | None:
    """The step times that explain the measurements best; None without any."""
    known = [s for s in seen if 0.0 < s.seconds < math.inf and s.workers >= 1]
    if not known:
        return None
    has_batch = all(s.batch > 0 for s in known)
    workers = np.array([s.workers for s in known], dtype=np.float64)
    dense = max((math.ceil(s.workers / min(s.nodes, s.workers)) for s in known if s.nodes), default=0)
    nodes = np.array([min(s.nodes or _fewest(s.workers, dense), s.workers) for s in known], dtype=np.float64)
    batch = np.array([s.batch if has_batch else 1.0 for s in known])
    cost = workers * np.array([s.seconds for s in known])
    cost = np.maximum(cost, cost.max() / WIDEST)
    weight = np.sqrt(np.array([min(s.epochs, EPOCHS) for s in known], dtype=np.float64))
    columns = _columns(workers, nodes, batch) / (cost / cost.min())[:, None]
    numbers, error = _fitted(columns, weight)
    is_global = has_batch and _spread(batch * workers) < _spread(batch)
    fixed, sample, inside, beside, across, beyond = numbers.tolist()
    return Steps(
        fixed,
        sample,
        inside,
        beside,
        across,
        beyond,
        batch=median((batch * workers if is_global else batch).tolist()),
        is_global=is_global,
        dense=dense,
        smallest=int(workers.min()),
        measured=int(workers.max()),
        settings=len({(s.workers, s.nodes, s.batch) for s in known}),
        epochs=sum(s.epochs for s in known),
        error=error,
        has_batch=has_batch,
        own=_own(known, nodes == np.ceil(workers / dense if dense else workers / workers.max()), columns @ numbers),
    )


def _own(seen: Sequence[MeasuredSteps], packed: Mask, fitted: Floats) -> tuple[tuple[int, float], ...]:
    """What sizes that ran on the fewest nodes measured, relative to the fit: the more epochs, the more it counts."""
    found: dict[int, list[float]] = {}
    for s, is_packed, part in zip(seen, packed.tolist(), fitted.tolist(), strict=True):
        if is_packed:
            away = min(max(1 / max(part, OUTLIER), 1 / (1 + OUTLIER)), 1 + OUTLIER)
            found.setdefault(s.workers, []).append(math.log(away) * s.epochs / (s.epochs + DOUBT))
    return tuple((workers, math.exp(median(parts))) for workers, parts in sorted(found.items()))


def _fewest(workers: int, dense: int) -> int:
    """The fewest nodes that hold the workers; one if nobody said how many fit on a node."""
    return math.ceil(workers / dense) if dense else 1


def _columns(workers: Floats, nodes: Floats, batch: Floats) -> Floats:
    """What each of the six numbers is multiplied with, for worker seconds per sample."""
    each = workers / nodes
    one = np.ones(len(workers))
    terms = (one, batch, each > 1, each - 1, nodes > 1, nodes - 1)
    columns: Floats = np.column_stack([np.asarray(term, dtype=np.float64) / batch for term in terms])
    return columns


def _fitted(ratios: Floats, weight: Floats) -> tuple[Floats, float]:
    """The numbers for which the predicted part of each measurement is nearest to 1, and the typical distance."""
    if len(weight) == 1:  # only computing is known
        return np.eye(6)[1] / ratios[0, 1], 0.0
    from scipy.optimize import nnls  # imported only for several settings: the import takes longer than the rest

    scale = np.sqrt((ratios**2).mean(axis=0))
    used = np.flatnonzero(scale > 0)
    columns = ratios[:, used] / scale[used]
    ridge = RIDGE * math.sqrt(len(weight)) * np.eye(len(used))
    goal = np.concatenate((np.ones(len(weight)), np.zeros(len(used))))
    each = weight.copy()
    for _ in range(ROUNDS):
        rows = np.concatenate((columns * each[:, None], ridge * each.mean()))
        found, _distance = nnls(rows, goal * np.concatenate((each, np.ones(len(used)))))
        away = np.abs(columns @ found - 1.0)
        again = weight * np.sqrt(np.minimum(OUTLIER / np.maximum(away, OUTLIER), 1.0))
        if np.allclose(again, each, rtol=1e-3):
            break
        each = again
    error = math.sqrt(float((each**2 * away**2).sum() / (each**2).sum()))
    numbers = np.zeros(ratios.shape[1])
    numbers[used] = found / scale[used]
    return numbers, error


def _spread(values: Floats) -> float:
    return float(np.ptp(np.log(values)))


def settings_of(seen: Sequence[MeasuredSteps]) -> list[MeasuredSteps]:
    """One measurement for each setting: the median of its seconds."""
    grouped: dict[tuple[int, int, float], list[float]] = {}
    for s in seen:
        grouped.setdefault((s.workers, s.nodes, s.batch), []).append(s.seconds)
    return [
        MeasuredSteps(workers, median(seconds), nodes, batch, len(seconds))
        for (workers, nodes, batch), seconds in sorted(grouped.items())
    ]
