"""How long jobs run, from the run times of finished jobs.

A job is compared with finished jobs that are more and more unlike it: of the same owner, name and GPUs; of the same
owner and name; of its category; with the same GPUs; all. Each level counts by how many jobs it has. If owners declare
limits, the share of the limit that jobs use is learned too; the law that spreads less on the finished jobs is used. A
running job is compared with jobs that ran at least as long as it has.

Run times count from start to end, however a job ended: a failed or deleted job makes room too. Of an elastic job, the
run time is the one at the size that its owner requested. What is said about another elastic job is the work on one
worker (`WorkOnOne`), because owners request different sizes for the same training.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import numpy as np

from maar.model.lengths import Estimate
from maar.model.resources import Floats

PRIOR = 8.0
"""A level with this number of finished jobs counts as much as all broader levels together. Tuned by hand."""
RECENT = 400
"""How many finished jobs a level looks back. Tuned by hand."""
ENOUGH = 5
"""With fewer finished jobs in all, nothing is learned from them. Tuned by hand."""
TAIL = 0.01
"""If fewer finished jobs than this share ran as long as a job, their rest says nothing, and the job's own past is used.
Tuned by hand."""
SIMILAR = 10
"""A job gets no estimate if fewer jobs of its owner and name, or of its category, have ended: nine in ten of a few say
nothing. Tuned by hand."""
ALIKE = math.log(2.0)
"""Jobs of the same owner, name and GPUs are alike if the logarithms of their run times spread less than this: the
length of one then says that of another to about a factor of two. Tuned by hand."""
HALF, MOST = 0.5, 0.9
"""The quantiles of an estimate."""
STEP = 1.1
"""Estimates are rounded up to a power of this: they decide about jobs, and each change makes decisions again. Tuned by
hand."""


class Traits(msgspec.Struct, frozen=True):
    """What is known of a job before it runs."""

    owner: str = ""
    stem: str = ""
    """Its name without what differs between runs (`maar.model.name_stems`)."""
    gpus: int = 0
    """GPUs at the requested size."""
    category: str = ""
    limit: float | None = None
    """The longest run time that its owner declares, in seconds."""


class RunSample(msgspec.Struct, frozen=True):
    """A finished job."""

    traits: Traits
    seconds: float
    """Run time at the requested size."""


class WorkOnOne(msgspec.Struct, frozen=True):
    """Turns run times at requested sizes into seconds on one worker, by the speed-up of the job that is asked about."""

    speeds: tuple[float, ...]
    """S(0), S(1), ..., relative to one worker."""
    gpus: int = 0
    """GPUs of one worker."""
    requested: int = 1

    def of(self, gpus: int) -> float:
        """The speed of a job that requested `gpus` GPUs."""
        workers = gpus // self.gpus if self.gpus and gpus else self.requested
        return self.speeds[min(max(workers, 1), len(self.speeds) - 1)]


class Law(msgspec.Struct, frozen=True):
    """A distribution of run times as weighted values, ascending."""

    values: Floats
    upto: Floats
    """The share of the weight up to each value, each value's own half included."""
    spread: float
    """Standard deviation of the logarithm."""
    scale: float = 1.0

    def draw(self, u: float, elapsed: float = 0.0) -> float:
        """The quantile `u` of the run times above `elapsed`; always more than `elapsed`."""
        values, least = self.values, elapsed / self.scale
        below = 0.0
        if least > 0.0:
            below = float(np.interp(math.log(least), values, self.upto, left=0.0, right=1.0))
        if below > 1.0 - TAIL:
            return elapsed / (1.0 - u)  # the longer it has run, the longer it will: Pareto's law with exponent 1
        at = below + u * (1.0 - below)
        drawn = math.exp(float(np.interp(at, self.upto, values))) * self.scale
        return max(drawn, math.nextafter(elapsed, math.inf))


class RunTimes:
    """The run times of finished jobs; later samples are newer."""

    def __init__(self, samples: Iterable[RunSample] = ()) -> None:
        self._levels: dict[tuple[object, ...], list[RunSample]] = {}
        self._laws: dict[tuple[Traits, bool, WorkOnOne | None], Law | None] = {}
        self._means: dict[tuple[object, ...], tuple[int, float]] = {}
        """Jobs of the same owner, name and GPUs: how many, and the mean logarithm of their run times."""
        self._squares, self._degrees = 0.0, 0
        """The sum of the squared distances from these means, and its degrees of freedom."""
        for sample in samples:
            self.add(sample)

    def add(self, sample: RunSample) -> None:
        """Learn from one more finished job."""
        if not 0.0 < sample.seconds < math.inf:
            return
        own, *_ = levels = _levels(sample.traits)
        count, mean = self._means.get(own, (0, 0.0))
        away = math.log(sample.seconds) - mean
        self._means[own] = count + 1, mean + away / (count + 1)
        self._squares += away**2 * count / (count + 1)
        self._degrees += count > 0
        for key in levels:
            known = self._levels.setdefault(key, [])
            known.append(sample)
            if len(known) > 2 * RECENT:
                del known[:RECENT]
        self._laws.clear()

    def seconds(self, traits: Traits, u: float, elapsed: float = 0.0) -> float | None:
        """The quantile `u` of the run time of a job that has run for `elapsed`; `None` if nothing is known.

        It is above `elapsed`, and at most the declared limit unless the job has broken it.
        """
        law = self._law(traits)
        limit = traits.limit if traits.limit is not None and traits.limit > elapsed else None
        if law is None:
            return limit
        drawn = law.draw(u, elapsed)
        return drawn if limit is None else min(drawn, limit)

    @property
    def _are_alike(self) -> bool:
        """Whether jobs of the same owner, name and GPUs took about as long as each other, and enough of them ended."""
        return self._degrees >= SIMILAR and self._squares < ALIKE**2 * self._degrees

    def kind(self, traits: Traits) -> str:
        """The kind of a job without an estimate, if the run times of others tell that a kind says something."""
        return f"{traits.owner}/{traits.stem}" if self._are_alike else ""

    def estimate(self, traits: Traits, work: WorkOnOne | None = None) -> Estimate | None:
        """How long a job runs that has not started yet; `None` without enough similar jobs.

        With `work`, it is the work of an elastic job, whatever its owner declares.
        """
        similar = max((len(self._levels.get(key, ())) for key in _similar(traits)), default=0)
        if similar < SIMILAR:
            return None
        if work is None:
            half, most = self.seconds(traits, HALF), self.seconds(traits, MOST)
        else:
            law = self._made(msgspec.structs.replace(traits, limit=None), shares=False, work=work)
            half, most = (None, None) if law is None else (law.draw(HALF), law.draw(MOST))
        return None if half is None or most is None else Estimate(_rounded(half), _rounded(most), min(similar, RECENT))

    def _law(self, traits: Traits) -> Law | None:
        """The law that spreads less: of the run times, or of the share of the limit that was used."""
        plain = msgspec.structs.replace(traits, limit=None)
        law = self._made(plain, shares=False)
        if traits.limit is None or traits.limit <= 0.0:
            return law
        shares = self._made(plain, shares=True)
        if law is None or (shares is not None and shares.spread < law.spread):
            law = shares
            return None if law is None else msgspec.structs.replace(law, scale=traits.limit)
        return law

    def _made(self, traits: Traits, shares: bool, work: WorkOnOne | None = None) -> Law | None:
        key = (traits, shares, work)
        if key not in self._laws:
            self._laws[key] = self._make(*key)
        return self._laws[key]

    def _make(self, traits: Traits, shares: bool, work: WorkOnOne | None) -> Law | None:
        values: list[float] = []
        weights: list[float] = []
        rest = 1.0
        for key in _levels(traits):
            level = [v for s in self._levels.get(key, ())[-RECENT:] if (v := _value(s, shares, work)) is not None]
            if not level:
                continue
            last = key == ()
            weight = rest if last else rest * len(level) / (len(level) + PRIOR)
            rest -= weight
            values.extend(level)
            weights.extend([weight / len(level)] * len(level))
        if len(self._levels.get((), ())) < ENOUGH or len(values) < ENOUGH:
            return None
        order = np.argsort(values, kind="stable")
        logs, share = np.array(values)[order], np.array(weights)[order]
        share /= share.sum()
        mean = float(logs @ share)
        spread = math.sqrt(max(float(((logs - mean) ** 2) @ share), 0.0))
        return Law(logs, np.cumsum(share) - share / 2, spread)


def _levels(traits: Traits) -> list[tuple[object, ...]]:
    """The keys of the groups of jobs to compare with, from the most alike to all."""
    own = ("owner, stem, gpus", traits.owner, traits.stem, traits.gpus)
    return [own, *_similar(traits), ("gpus", traits.gpus), ()]


def _similar(traits: Traits) -> list[tuple[object, ...]]:
    """The groups whose jobs count as similar: of the same owner and name, and of the same category."""
    return [("owner, stem", traits.owner, traits.stem), *([("category", traits.category)] if traits.category else [])]


def _rounded(seconds: float) -> float:
    return round(STEP ** math.ceil(math.log(seconds, STEP)), 3)


def _value(sample: RunSample, share: bool, work: WorkOnOne | None) -> float | None:
    """The logarithm of a run time, of the share of its limit, or of its work."""
    if not share:
        return math.log(sample.seconds * (1.0 if work is None else work.of(sample.traits.gpus)))
    limit = sample.traits.limit
    return None if limit is None or limit <= 0.0 else math.log(sample.seconds / limit)
