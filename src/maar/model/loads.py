"""The real load of nodes, as monitoring has measured it: gathered outside, and handed to decisions with its time.

Figures are optional. Missing and outdated ones are the same: nothing is known about the load of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from maar.model.resources import Floats, Mask

MAX_AGE = 300.0
"""Seconds after which figures count as absent, as in Volcano."""


class Load(msgspec.Struct, frozen=True):
    """What a node really uses, as fractions of its capacity: 0.8 is 80 %."""

    node: str
    cpu: float | None
    """`None` if unknown."""
    memory: float | None
    at: float
    """When it was measured."""
    cpu_capacity: int = 0
    """The CPU of the whole machine, in milli; 0 if unknown."""
    memory_capacity: int = 0
    """In bytes."""


class LoadTable:
    """Loads in the rows of the node table; NaN where nothing is known."""

    def __init__(self, loads: Iterable[Load], row: Mapping[str, int]) -> None:
        self.cpu: Floats = np.full(len(row), np.nan)
        self.memory: Floats = np.full(len(row), np.nan)
        self.at: Floats = np.full(len(row), -np.inf)
        self.cpu_capacity: Floats = np.zeros(len(row))
        self.memory_capacity: Floats = np.zeros(len(row))
        for load in loads:
            i = row.get(load.node)
            if i is not None:
                self.cpu[i] = np.nan if load.cpu is None else load.cpu
                self.memory[i] = np.nan if load.memory is None else load.memory
                self.at[i] = load.at
                self.cpu_capacity[i], self.memory_capacity[i] = load.cpu_capacity, load.memory_capacity

    def fresh(self, now: float, within: float = MAX_AGE) -> Mask:
        """The nodes whose figures are at most this old; clocks that are ahead by more than this count as wrong."""
        return np.asarray(np.abs(now - self.at) <= within)
