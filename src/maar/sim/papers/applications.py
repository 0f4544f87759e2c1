"""Rates: the progress per second of each application, by epoch and by number of GPUs, for the model `rates`.

Read from a CSV file with the columns `application`, `epoch`, `progress_from`, `progress_to` and `gpus_1`, `gpus_2`, ...
with the progress per second on that many GPUs; an empty cell means that the application cannot run there. A job has
ended when it reaches the last `progress_to` of its application. Between two sizes of the table, rates are linear.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from maar.elastic.speedup import Floats
from maar.sim.traces.problems import TraceError
from maar.sim.traces.rows import Row, Rows
from maar.sim.traces.source import Source

NEEDS = ("application", "epoch", "progress_from", "progress_to")
_SIZE = re.compile(r"gpus_([1-9]\d{0,5})", re.ASCII)


class Application(msgspec.Struct, frozen=True):
    """The rates of one application. It runs on `sizes[0]` to `sizes[-1]` GPUs."""

    ends: tuple[float, ...]
    """The progress at the end of each epoch."""
    sizes: tuple[int, ...]
    """Sizes at which it can run in every epoch, ascending."""
    rates: tuple[tuple[float, ...], ...]
    """By epoch: progress per second at each size."""

    def table(self) -> Floats:
        """Progress per second by epoch and by any number of GPUs up to the largest size."""
        every = np.arange(self.sizes[-1] + 1)
        table: Floats = np.array([np.interp(every, self.sizes, rates) for rates in self.rates])
        table[:, : self.sizes[0]] = 0.0
        return table


class Rates(msgspec.Struct, frozen=True):
    applications: dict[str, Application]


def read_rates(source: Source) -> Rates:
    """The rates of a file; a `TraceError` lists all problems."""
    rows = Rows(source)
    epochs: dict[str, list[tuple[Row, float]]] = {}
    for row in rows.csv(NEEDS):
        name = row.text("application")
        known = epochs.setdefault(name, [])
        number, begin = row.whole("epoch", 0), row.number("progress_from", 0.0)
        end = row.number("progress_to", 0.0)
        if number != len(known):
            row.wrong("epoch", f"{len(known)}, the next epoch of `{name}`", number)
        if begin != (known[-1][1] if known else 0.0):
            row.wrong("progress_from", "the progress at the end of the epoch before", begin)
        if end <= begin:
            row.wrong("progress_to", f"more than `progress_from` ({begin:g})", end)
        known.append((row, end))
    found = {name: _application(name, known) for name, known in epochs.items()}
    rows.check()
    if not found:
        raise TraceError([f"{source.name}: contains no rates"])
    return Rates({name: made for name, made in found.items() if made is not None})


def _application(name: str, epochs: list[tuple[Row, float]]) -> Application | None:
    cells = {int(match[1]): column for column in epochs[0][0].cells if (match := _SIZE.fullmatch(column))}
    sizes = tuple(size for size in sorted(cells) if all(row.has(cells[size]) for row, _ in epochs))
    if not sizes:
        epochs[0][0].problem(f"`{name}`: expected a number of GPUs (`gpus_1`, ...) with a rate in every epoch")
        return None
    rates = tuple(tuple(_rate(row, cells[size]) for size in sizes) for row, _ in epochs)
    return Application(tuple(end for _, end in epochs), sizes, rates)


def _rate(row: Row, column: str) -> float:
    rate = row.number(column, 0.0)
    if row.good and rate == 0.0:
        row.wrong(column, "a number above 0, or nothing", rate)
    return rate
