"""Chance for synthetic traces, that gives the same numbers everywhere and always.

The bits come from numpy's PCG64, whose stream numpy promises to keep; its distributions may change with a version, so
they are made here, each from one uniform number by its inverse. Every attribute of a job draws from a stream of its
own: whoever changes the share of elastic jobs keeps the arrivals.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import msgspec
import numpy as np

_NORMAL = NormalDist()

Weights = tuple[tuple[str, float], ...]
"""What to choose from, and how often each; weights need not sum to anything."""


class Stream:
    """Uniform numbers below 1."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._bits = np.random.PCG64(seed)

    def uniform(self) -> float:
        """The next one, above 0 as well: the upper 53 of 64 bits, and a half."""
        return (int(self._bits.random_raw()) // 2**11 + 0.5) * 2.0**-53

    def choice(self, weights: Weights) -> str:
        """One of them, each as often as its weight says."""
        at = self.uniform() * sum(weight for _, weight in weights)
        key = ""
        for key, weight in weights:  # noqa: B007 - what is left by rounding is the last one's
            at -= weight
            if at < 0:
                break
        return key


def streams(seed: int, count: int) -> list[Stream]:
    """So many streams that have nothing to do with each other."""
    return [Stream(child) for child in np.random.SeedSequence(seed).spawn(count)]


class Lognormal(msgspec.Struct, frozen=True, tag="lognormal", forbid_unknown_fields=True):
    """Many short and a few very long ones: what clusters see. `sigma` is that of the logarithm."""

    median: float
    sigma: float = 1.5

    def __post_init__(self) -> None:
        if self.median <= 0 or self.sigma < 0:
            raise ValueError("expected a median above 0 and a sigma of at least 0")

    def __call__(self, u: float) -> float:
        """The value below which the part `u` lies."""
        return self.median * math.exp(self.sigma * _NORMAL.inv_cdf(u))


class Exponential(msgspec.Struct, frozen=True, tag="exponential", forbid_unknown_fields=True):
    """Without memory: how long it will take says nothing about how long it has."""

    mean: float

    def __post_init__(self) -> None:
        if self.mean <= 0:
            raise ValueError("expected a mean above 0")

    def __call__(self, u: float) -> float:
        """The value below which the part `u` lies."""
        return -self.mean * math.log1p(-u)


class Uniform(msgspec.Struct, frozen=True, tag="uniform", forbid_unknown_fields=True):
    """All alike between two."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise ValueError("expected a low of at least 0 and a high of at least that")

    def __call__(self, u: float) -> float:
        """The value below which the part `u` lies."""
        return self.low + (self.high - self.low) * u


Distribution = Lognormal | Exponential | Uniform
KINDS: dict[str, type[Lognormal] | type[Exponential] | type[Uniform]] = {
    "lognormal": Lognormal,
    "exponential": Exponential,
    "uniform": Uniform,
}
