"""The input of a format: the bytes of a file and its name in messages.

`maar.controller` reads recordings, and the simulator does not import it. The caller passes a function that reads the
cycles of a recording.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from maar.model.plan import Plan
from maar.model.snapshot import Cluster
from maar.sim.traces.problems import TraceError


class RecordedCycle(Protocol):
    """One cycle of a recording."""

    @property
    def now(self) -> float:
        """The time of the cycle."""

    @property
    def cluster(self) -> Cluster:
        """The input of the decision."""

    @property
    def plan(self) -> Plan:
        """The decision."""


@dataclass(frozen=True)
class Source:
    """A file, or standard input."""

    name: str
    """For messages."""
    data: bytes
    cycles: Callable[[], Iterable[RecordedCycle]] | None = None
    """Reads the cycles of a recording; None for any other file."""

    @cached_property
    def text(self) -> str:
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.data[: error.start].count(b"\n") + 1
            raise TraceError(
                [f"{self.name}:{line}: expected text in UTF-8, got byte {error.object[error.start]:#04x}"]
            ) from None

    @cached_property
    def first(self) -> str:
        """The first line that is neither empty nor a comment: usually a header."""
        start = self.data[:65536].decode("utf-8-sig", "replace")
        lines = (line.strip() for line in start.splitlines())
        return next((line for line in lines if line and not line.startswith("#")), "")

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The cells of the first line, as column names."""
        return header(next(csv.reader([self.first]), []))


def header(cells: list[str]) -> tuple[str, ...]:
    """Column names in lower case and without surrounding spaces."""
    return tuple(cell.strip().lower() for cell in cells)
