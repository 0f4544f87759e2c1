"""Random numbers for synthetic traces, equal on every machine and with every version of numpy.

The bits come from numpy's PCG64, whose stream numpy promises to keep. numpy's distributions may change between
versions, so each distribution here is computed from one uniform number by its inverse. Every attribute of a job has its
own stream: changing the share of elastic jobs does not change the arrivals.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import msgspec
import numpy as np

_NORMAL = NormalDist()

Weights = tuple[tuple[str, float], ...]
"""Choices and their weights; the weights need not add up to 1."""


class Stream:
    """A stream of uniform numbers between 0 and 1, both excluded."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._bits = np.random.PCG64(seed)

    def uniform(self) -> float:
        """The next number: the upper 53 of 64 bits plus a half, so that it is never 0."""
        return (int(self._bits.random_raw()) // 2**11 + 0.5) * 2.0**-53

    def choice(self, weights: Weights) -> str:
        """One of the choices, with probability proportional to its weight."""
        at = self.uniform() * sum(weight for _, weight in weights)
        key = ""
        for key, weight in weights:  # noqa: B007 - rounding may leave a rest, which goes to the last choice
            at -= weight
            if at < 0:
                break
        return key


def streams(seed: int, count: int) -> list[Stream]:
    """Independent streams from one seed."""
    return [Stream(child) for child in np.random.SeedSequence(seed).spawn(count)]


class Lognormal(msgspec.Struct, frozen=True, tag="lognormal", forbid_unknown_fields=True):
    """Many short values and a few very long ones, as in real clusters. `sigma` is that of the logarithm."""

    median: float
    sigma: float = 1.5

    def __post_init__(self) -> None:
        if self.median <= 0 or self.sigma < 0:
            raise ValueError("expected a median above 0 and a sigma of at least 0")

    def __call__(self, u: float) -> float:
        """The quantile `u`, between 0 and 1."""
        return self.median * math.exp(self.sigma * _NORMAL.inv_cdf(u))


class Exponential(msgspec.Struct, frozen=True, tag="exponential", forbid_unknown_fields=True):
    """Memoryless: the time that has passed says nothing about the time that is left."""

    mean: float

    def __post_init__(self) -> None:
        if self.mean <= 0:
            raise ValueError("expected a mean above 0")

    def __call__(self, u: float) -> float:
        return -self.mean * math.log1p(-u)


class Uniform(msgspec.Struct, frozen=True, tag="uniform", forbid_unknown_fields=True):
    """All values between `low` and `high` are equally likely."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise ValueError("expected a low of at least 0 and a high of at least that")

    def __call__(self, u: float) -> float:
        return self.low + (self.high - self.low) * u


Distribution = Lognormal | Exponential | Uniform
KINDS: dict[str, type[Lognormal] | type[Exponential] | type[Uniform]] = {
    "lognormal": Lognormal,
    "exponential": Exponential,
    "uniform": Uniform,
}
