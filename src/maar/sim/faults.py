"""Nodes that fail, are repaired, are drained and come back.

Either as a file says (`read`) or by chance from a seed (`Chance`). Both depths take them from here as events; a node is
a number from 0 on. A node that fails takes what runs on it with it; one that is drained gives time to save all work.
"""

from __future__ import annotations

import csv
import enum
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec


class What(enum.StrEnum):
    """What happens to a node."""

    FAIL = "fail"
    REPAIR = "repair"
    DRAIN = "drain"
    RETURN = "return"


class NodeEvent(msgspec.Struct, frozen=True):
    """Something happens to a node."""

    time: float
    node: int
    what: What


class Chance(msgspec.Struct, frozen=True):
    """Nodes fail by chance, each for itself: exponential times between a repair and the next failure."""

    between: float
    """Mean seconds from a repair to the next failure."""
    repair: float = 3600.0
    """Mean seconds until a node is repaired."""
    seed: int = 0

    def of(self, node: int) -> Iterator[NodeEvent]:
        """All that ever happens to one node, in time."""
        dice = random.Random(f"{self.seed}/{node}")
        time = 0.0
        while True:
            time += dice.expovariate(1.0 / self.between)
            yield NodeEvent(time, node, What.FAIL)
            time += dice.expovariate(1.0 / self.repair)
            yield NodeEvent(time, node, What.REPAIR)


class Faults(msgspec.Struct, frozen=True):
    """What happens to nodes: times count from the first submission."""

    events: tuple[NodeEvent, ...] = ()
    chance: Chance | None = None

    def of(self, node: int) -> Iterator[NodeEvent]:
        """All that happens to one node, in time."""
        if self.chance is not None:
            return self.chance.of(node)
        return iter(sorted((e for e in self.events if e.node == node), key=lambda e: e.time))


NO_FAULTS = Faults()


class FaultError(ValueError):
    """A file of node events, or an option, that makes no sense; the message names the place."""


HEADER = ["time", "node", "event"]


def read(path: Path, nodes: int) -> Faults:
    """The events of a CSV file with the columns time (seconds after the first submission), node and event."""
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
        raise wrong("time", "seconds from 0 on", row[0])
    if not row[1].isdecimal() or int(row[1]) >= nodes:
        raise wrong("node", f"a number from 0 to {nodes - 1}", row[1])
    if row[2] not in list(What):
        raise wrong("event", f"one of {', '.join(What)}", row[2])
    return NodeEvent(time, int(row[1]), What(row[2]))


def parse_chance(text: str) -> Chance:
    """What `--fail BETWEEN[,REPAIR[,SEED]]` says: mean seconds between failures of a node, and of a repair."""
    parts = text.split(",")
    try:
        between, repair = float(parts[0]), float(parts[1]) if len(parts) > 1 else 3600.0
        seed = int(parts[2]) if len(parts) > 2 else 0
    except ValueError:
        between = repair = seed = 0
    if len(parts) > 3 or not (0 < between < float("inf") and 0 < repair < float("inf")):
        raise FaultError(f"expected seconds above 0, `BETWEEN[,REPAIR[,SEED]]`, got `{text}`")
    return Chance(between, repair, seed)
