"""Nodes that fail, are repaired, are drained and return.

Events come from a file (`read`) or at random from a seed (`Chance`), for both depths. Nodes are numbered from 0. Jobs
on a failing node lose unsaved work; jobs on a drained node save their work first.
"""

from __future__ import annotations

import csv
import enum
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec


class What(enum.StrEnum):
    FAIL = "fail"
    REPAIR = "repair"
    DRAIN = "drain"
    RETURN = "return"


class NodeEvent(msgspec.Struct, frozen=True):
    time: float
    node: int
    what: What


class Chance(msgspec.Struct, frozen=True):
    """Random, independent failures of nodes. Times between failures and for repairs are exponential."""

    between: float
    """Mean seconds from a repair to the next failure."""
    repair: float = 3600.0
    """Mean seconds from a failure to its repair."""
    seed: int = 0

    def of(self, node: int) -> Iterator[NodeEvent]:
        """The endless events of one node, in order of time."""
        dice = random.Random(f"{self.seed}/{node}")
        time = 0.0
        while True:
            time += dice.expovariate(1.0 / self.between)
            yield NodeEvent(time, node, What.FAIL)
            time += dice.expovariate(1.0 / self.repair)
            yield NodeEvent(time, node, What.REPAIR)


class Faults(msgspec.Struct, frozen=True):
    """Node events of a run. Times count from the first submission."""

    events: tuple[NodeEvent, ...] = ()
    chance: Chance | None = None

    def of(self, node: int) -> Iterator[NodeEvent]:
        """The events of one node, in order of time."""
        if self.chance is not None:
            return self.chance.of(node)
        return iter(sorted((e for e in self.events if e.node == node), key=lambda e: e.time))


class FaultError(ValueError):
    """An invalid file of node events or an invalid option; the message names the place."""


HEADER = ["time", "node", "event"]
LONGEST = 18
"""Digits of the number of a node: Python refuses to convert thousands of them."""


def read(path: Path, nodes: int) -> Faults:
    """Read a CSV file with the columns time (seconds after the first submission), node and event."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FaultError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not rows or rows[0] != HEADER:
        raise FaultError(f"{path}: line 1: expected the columns `{','.join(HEADER)}`")
    return Faults(tuple(_event(path, line, row, nodes) for line, row in enumerate(rows[1:], 2) if row))


def _event(path: Path, line: int, row: list[str], nodes: int) -> NodeEvent:
    def wrong(column: str, expected: str, got: str) -> FaultError:
        return FaultError(f"{path}: line {line}, column `{column}`: expected {expected}, got `{got}`")

    if len(row) != len(HEADER):
        raise FaultError(f"{path}: line {line}: expected {len(HEADER)} columns, got {len(row)}")
    try:
        time = float(row[0])
    except ValueError:
        raise wrong("time", "seconds", row[0]) from None
    if not 0.0 <= time < float("inf"):
        raise wrong("time", "seconds of at least 0", row[0])
    if not row[1].isdecimal() or len(row[1]) > LONGEST or int(row[1]) >= nodes:
        raise wrong("node", f"a number from 0 to {nodes - 1}", row[1])
    if row[2] not in list(What):
        raise wrong("event", f"one of {', '.join(What)}", row[2])
    return NodeEvent(time, int(row[1]), What(row[2]))


def parse_chance(text: str) -> Chance:
    """Parse `--fail BETWEEN[,REPAIR[,SEED]]`: mean seconds from a repair to the next failure, and of a repair."""
    parts = text.split(",")
    try:
        between, repair = float(parts[0]), float(parts[1]) if len(parts) > 1 else 3600.0
        seed = int(parts[2]) if len(parts) > 2 else 0
    except ValueError:
        between = repair = seed = 0
    if len(parts) > 3 or not (0 < between < float("inf") and 0 < repair < float("inf")):
        raise FaultError(f"expected seconds above 0, `BETWEEN[,REPAIR[,SEED]]`, got `{text}`")
    return Chance(between, repair, seed)
