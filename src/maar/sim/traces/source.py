"""What a format is given: the bytes of a file and what to call it in messages.

Recordings are read by the controller, which no simulation knows: whoever has a file that is one hands in how its cycles
are read.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Protocol

from maar.model.plan import Plan
from maar.model.snapshot import Cluster
from maar.sim.traces.problems import TraceError


class Cycle(Protocol):
    """What a recording says of one moment."""

    @property
    def now(self) -> float:
        """When it was."""

    @property
    def cluster(self) -> Cluster:
        """What there was."""

    @property
    def plan(self) -> Plan:
        """What was decided."""


@dataclass(frozen=True)
class Source:
    """A file, or standard input."""

    name: str
    """For messages."""
    data: bytes
    cycles: Callable[[], Iterable[Cycle]] | None = None
    """How it is read if it is a recording; nothing where it is none."""

    @cached_property
    def text(self) -> str:
        """What it says, if it is text."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.data[: error.start].count(b"\n") + 1
            raise TraceError(
                [f"{self.name}:{line}: expected text in UTF-8, got byte {error.object[error.start]:#04x}"]
            ) from None

    @property
    def suffix(self) -> str:
        """How its name ends, as `.csv`."""
        return PurePath(self.name).suffix.lower()

    @cached_property
    def first(self) -> str:
        """The first line that says something: a header, as a rule."""
        start = self.data[:65536].decode("utf-8-sig", "replace")
        lines = (line.strip() for line in start.splitlines())
        return next((line for line in lines if line and not line.startswith("#")), "")

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """That line's cells, as the names of columns."""
        return header(next(csv.reader([self.first]), []))


def header(cells: list[str]) -> tuple[str, ...]:
    """Names of columns without what differs between writers: spaces around them, and capitals."""
    return tuple(cell.strip().lower() for cell in cells)
