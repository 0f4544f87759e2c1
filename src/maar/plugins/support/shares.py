"""Queue arithmetic: how a total is divided, what a share is, how many more fit under a limit.

Pure functions on rows of Python integers (one entry per resource), used by plugins for queues. Everything is exact: no
floats and no tolerance, so equal shares are equal and a division leaves no remainder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm

Row = list[int]


def divide(total: int, weights: Sequence[int], low: Sequence[int], high: Sequence[int]) -> Row:
    """Water-filling: share `total` by weight, each at least `low` and at most `high`, in whole units.

    The level rises for all at the rate of their weights. A full entry stops; an entry with a guarantee starts when the
    level reaches it. The sum is `total`, unless all entries are full before or the guarantees alone exceed it. Units
    that cannot be split go to the largest remainders, and among equal ones to the first.

    The rounds are those of CSS flexible boxes: give each open entry its share, freeze the side (too little or too much)
    with the larger violation, and repeat with the rest. Volcano's rounds converge to the same limit, with a remainder.
    """
    high = [max(a, b) for a, b in zip(low, high, strict=True)]
    if sum(high) <= total:
        return list(high)
    given = list(low)
    if sum(low) >= total:
        return given
    left, rest, weight = set(range(len(weights))), total, sum(weights)
    while left:
        share = {i: rest * weights[i] for i in left}  # in units of 1 / weight
        under = {i for i in left if share[i] < low[i] * weight}
        over = {i for i in left if share[i] > high[i] * weight}
        violated = sum(low[i] * weight - share[i] for i in under) + sum(high[i] * weight - share[i] for i in over)
        frozen = (under if violated >= 0 else set()) | (over if violated <= 0 else set())
        if not frozen:
            return _whole(given, share, rest, weight)
        for i in frozen:
            given[i] = low[i] if i in under else high[i]
            rest -= given[i]
            weight -= weights[i]
        left -= frozen
    return given


def _whole(given: Row, share: dict[int, int], rest: int, weight: int) -> Row:
    for i, part in share.items():
        given[i] = part // weight
        rest -= given[i]
    for i in sorted(share, key=lambda i: (-(share[i] % weight), i))[:rest]:
        given[i] += 1
    return given


class Ratio:
    """A fraction that only compares with its like: exact, as `Fraction` is, in a tenth of the time."""

    __slots__ = ("has", "of")

    def __init__(self, has: int, of: int) -> None:
        """`of` is above 0."""
        self.has, self.of = has, of

    @property
    def rounded(self) -> float:
        """The nearest float: in a sort key before the ratio, it settles most comparisons in a tenth of the time."""
        return self.has / self.of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ratio) and self.has * other.of == other.has * self.of

    def __lt__(self, other: Ratio) -> bool:
        return self.has * other.of < other.has * self.of

    def __hash__(self) -> int:
        return hash(Fraction(self.has, self.of))

    def __repr__(self) -> str:
        return f"Ratio({self.has}, {self.of})"


def share_of(allocated: Sequence[int], deserved: Sequence[int], dims: Iterable[int]) -> Ratio:
    """The largest fraction of its deserved amount that a queue has of any resource.

    Any amount of a resource that it does not deserve counts as 1, as in Volcano.
    """
    best, best_due = 0, 1
    for d in dims:
        has, due = allocated[d], deserved[d]
        if has <= 0:
            continue
        if due <= 0:
            has = due = 1
        if has * best_due > best * due:
            best, best_due = has, due
    return Ratio(best, best_due)


def less(left: Sequence[int], right: Sequence[int]) -> Row:
    """The difference of two rows; may be negative."""
    return [a - b for a, b in zip(left, right, strict=True)]


def plus(left: Sequence[int], right: Sequence[int], times: int = 1) -> Row:
    """The sum of a row and a multiple of another."""
    return [a + b * times for a, b in zip(left, right, strict=True)]


def at_most(left: Sequence[int], right: Sequence[int]) -> Row:
    return [min(a, b) for a, b in zip(left, right, strict=True)]


def at_least(left: Sequence[int], right: Sequence[int]) -> Row:
    return [max(a, b) for a, b in zip(left, right, strict=True)]


def real_capability(
    available: Sequence[int], guaranteed: Sequence[int], own: Sequence[int], limit: Sequence[int]
) -> Row:
    """The most that a queue can have: its limit, or what is available beside the guarantees of others."""
    rest = at_least(less(available, guaranteed), [0] * len(own))
    return at_most(plus(rest, own), limit)


class Dominant:
    """Dominant shares of one total as integers, so that they compare exactly and fast.

    A share of 1 is `whole`, the least common multiple of the totals, so that every part of a total is a whole number.
    """

    def __init__(self, total: Sequence[int], ignored: int) -> None:
        counted = [d for d, amount in enumerate(total) if amount > 0 and d != ignored]
        self.whole = lcm(*(total[d] for d in counted))
        self.scales: list[tuple[int, int]] = [(d, self.whole // total[d]) for d in counted]

    def share(self, row: Sequence[int]) -> int:
        """The largest part of a total, in units of `1 / whole`. Resources that no node has are ignored."""
        return max((row[d] * scale for d, scale in self.scales), default=0)

    def parts(self, row: Sequence[int]) -> list[int]:
        """The part of every counted total, in the same units."""
        return [row[d] * scale for d, scale in self.scales]
