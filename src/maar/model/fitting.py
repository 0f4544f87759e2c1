"""What fits: the arithmetic of free room and requests, on plain arrays.

`session.capacity` binds it to the state of a cycle. Code without a session (forecasts, the simulator, shards) calls it
directly. No other module divides amounts by requests, or subtracts what is used from what nodes have: a test says so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from maar.model.resources import Floats, Ints

MANY = 2**31
"""How many tasks fit that request nothing: more than any gang has. The sum over all nodes does not overflow."""
EVERY = slice(None)
Number = TypeVar("Number", bound=np.generic)


class Mode(enum.Enum):
    """Which pods, and which nominated or reserved room, count when room is free."""

    NOW = "now"
    """Can be bound at once: nominated room counts as taken, where no leaving pod is about to give it."""
    LATER = "later"
    """After releasing pods are gone; nominated room counts as taken."""
    EMPTY = "empty"
    """If no pod ran and nothing were nominated."""
    UNNOMINATED = "unnominated"
    """After releasing pods are gone; nominated room counts as free."""
    IDLE = "idle"
    """Not used by any pod; nominated room counts as free."""
    CERTAIN = "certain"
    """Not used and not nominated, whatever leaves."""


class Columns(Protocol):
    """What is taken of nodes: a row for each node, a column for each resource."""

    used: Ints
    """What bound and releasing tasks use."""
    releasing: Ints
    """What releasing tasks use."""
    nominated: Ints
    """Nominated for tasks, or reserved for pods to come: both are meant where room is called nominated here."""


def free(mode: Mode, has: Ints, of: Columns, rows: Ints | slice = EVERY, dim: int | slice = EVERY) -> Ints:
    """The free amounts of nodes that have `has`, of all resources or of one (`dim`); may be negative."""
    idle = _at(has, rows, dim)
    if mode is Mode.EMPTY:
        return idle
    idle = idle - _at(of.used, rows, dim)
    if mode is Mode.IDLE:
        return idle
    if mode is Mode.UNNOMINATED:
        return idle + _at(of.releasing, rows, dim)
    if mode is Mode.CERTAIN:
        return idle - _at(of.nominated, rows, dim)
    beyond = _at(of.nominated, rows, dim) - _at(of.releasing, rows, dim)
    return idle - (beyond if mode is Mode.LATER else np.maximum(beyond, 0))


def _at(column: Ints, rows: Ints | slice, dim: int | slice) -> Ints:
    return column[rows, dim] if isinstance(dim, int) else rows_of(column, rows)


def taken(of: Columns, rows: Ints | slice | int = EVERY) -> Ints:
    """What is used or nominated, without releasing tasks."""
    return rows_of(of.used, rows) - rows_of(of.releasing, rows) + rows_of(of.nominated, rows)


def count(room: Ints, request: Ints) -> Ints:
    """How many tasks with this request fit into each row of `room`; `MANY` if they request nothing."""
    return count_columns(len(room), [(room[:, dim], wants) for dim, wants in enumerate(request.tolist()) if wants])


def count_columns(rows: int, columns: Iterable[tuple[Ints, int]]) -> Ints:
    """The same from the free amounts of each requested resource, with the request of one task; at least 0."""
    counts: Ints | None = None
    for room, request in columns:
        fit = room // request
        counts = fit if counts is None else np.minimum(counts, fit, out=counts)
    if counts is None:
        return np.full(rows, MANY, dtype=np.int64)
    return np.maximum(counts, 0, out=counts)


def how_many(room: Sequence[int], request: Sequence[int], wanted: int = MANY) -> int:
    """How many of the wanted tasks fit into amounts of each resource, as plain integers; at least 0."""
    for has, needs in zip(room, request, strict=True):
        if needs > 0:
            wanted = min(wanted, has // needs)
            if wanted <= 0:
                return 0
    return wanted


def fraction(room: Ints, request: Ints) -> Floats:
    """How many times a request fits into each row, with fractions, to compare nodes; 0 if it requests nothing."""
    dims = np.flatnonzero(request)
    if not len(dims):
        return np.zeros(len(room))
    return np.asarray((np.maximum(room[:, dims], 0) / request[dims]).min(axis=1))


def lack_of(room: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """What is missing for one more task, by resource: from resources, what is free and what one task requests."""
    return {dim: needs - has for dim, has, needs in room if needs > has}


def charge(room: Ints, rows: Ints, counts: Ints, request: Ints) -> None:
    """Take the requests of `counts[i]` tasks from `rows[i]` of `room`; a row may be named more than once."""
    np.subtract.at(room, rows, counts[:, None] * request)


def give(room: Ints, rows: Ints, requests: Ints) -> None:
    """Add a request (a row of `requests`) to each of these rows of `room`; rows below 0 are unknown nodes."""
    known = rows >= 0
    np.add.at(room, rows[known], requests[known])


def rows_of(column: npt.NDArray[Number], rows: Ints | slice | int) -> npt.NDArray[Number]:
    """The same as `column[rows]`. For the few rows that change by a placement it takes a fifth of the time."""
    return column.take(rows, axis=0) if isinstance(rows, np.ndarray) else column[rows]


def columns_of(row: npt.NDArray[Number], columns: Ints | slice) -> npt.NDArray[Number]:
    """The same as `row[:, columns]`, as fast as `rows_of`."""
    return row.take(columns, axis=1) if isinstance(columns, np.ndarray) else row[:, columns]
