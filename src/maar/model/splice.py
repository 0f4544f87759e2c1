"""Splicing: sorted tables with some blocks removed and others inserted.

Successive snapshots differ in a few jobs. Their rows are cut out of every column and the new rows inserted in order:
one copy of memory per column, and no object is created again.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import compress
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from maar.model.resources import Ints, Mask

T = TypeVar("T")
Array = npt.NDArray[Any]


class Splice:
    """Which old rows stay, and before which kept row each new row is inserted."""

    def __init__(self, keep: Mask, at: Ints) -> None:
        self._keep = keep
        self._at = at
        kept = np.flatnonzero(keep)
        # A new row comes before the kept row at its position; earlier new rows shift it.
        places = at + np.arange(len(at))
        self._order: Ints = np.empty(len(kept) + len(at), dtype=np.int64)
        """The rows after the change, numbered through the old rows and then the new rows."""
        is_new = np.zeros(len(self._order), dtype=np.bool_)
        is_new[places] = True
        self._order[places] = len(keep) + np.arange(len(at))
        self._order[~is_new] = kept

    @classmethod
    def by_key(cls, old: list[str], new: list[str], gone: set[str]) -> Splice:
        """The splice of rows sorted by key that removes `gone` and inserts `new`."""
        keep = np.array([key not in gone for key in old], dtype=np.bool_) if gone else np.ones(len(old), dtype=np.bool_)
        kept = list(compress(old, keep.tolist())) if gone else old
        return cls(keep, np.array([bisect_left(kept, key) for key in new], dtype=np.int64))

    def rows(self, old: Array, new: Array) -> Array:
        return np.concatenate((old, new)).take(self._order, axis=0)

    def items(self, old: list[T], new: list[T]) -> list[T]:
        both, after = old + new, []
        ends = np.flatnonzero(np.diff(self._order) != 1) + 1
        for run in np.split(self._order, ends) if len(self._order) else ():
            after += both[run[0] : run[-1] + 1]
        return after

    def parts(self, old: Ints, new: Ints) -> Splice:
        """The same change for the parts of the rows: row `i` has `old[i]` or `new[i]` parts."""
        bounds = np.concatenate(([0], np.cumsum(old[self._keep])))
        return Splice(np.repeat(self._keep, old), np.repeat(bounds[self._at], new))
