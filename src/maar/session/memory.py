"""What plugins remember from one cycle to the next: values in, values out.

    SEEN = Remember("seen", About.QUEUE, Seen, merge=later)

    def open(self, session, on):
        self.seen = on.remember(SEEN)                # values of earlier cycles, by name of the queue
        self.seen.set(Seen(session.now), "research") # undone with statements

Values of objects that are gone, of plugins that do not run, and values that do not fit the struct are forgotten.
Fields that the struct does not have are ignored, so that an older version reads what a newer one wrote. If two writers
left a value each, the declaration says how they merge; the order must not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from maar.model.facts import About, Fact
from maar.model.snapshot import Snapshot
from maar.session.journal import Journal


class Dated(Protocol):
    """A struct with a time."""

    @property
    def at(self) -> float: ...


D = TypeVar("D", bound=Dated)
T = TypeVar("T", bound=msgspec.Struct)


def later(one: D, other: D) -> D:
    """The one with the later time: a merge for structs that state when something happened."""
    return one if one.at >= other.at else other


@dataclass(frozen=True, slots=True)
class Remember(Generic[T]):
    """The declaration of a fact: its name among those of its plugin, what it is about, its struct, how two merge."""

    name: str
    about: About
    type: type[T]
    merge: Callable[[T, T], T]


class RememberedValue(NamedTuple):
    """A value, and when it last changed."""

    value: Any
    at: float


class Remembered(Generic[T]):
    """The current values of one fact, by the object that they are about (empty for the cluster)."""

    def __init__(
        self, journal: Journal, now: float, entries: dict[str, RememberedValue], is_there: Callable[[str], bool]
    ) -> None:
        self._journal, self._now, self._is_there = journal, now, is_there
        self.entries = entries

    def get(self, key: str = "") -> T | None:
        entry = self.entries.get(key)
        return None if entry is None else entry.value

    def set(self, value: T, key: str = "") -> None:
        """Remember a value. Every change of it is a write, so do not state the time where it does not matter."""
        if not self._is_there(key):
            raise KeyError(f"nothing to remember it of: `{key}`")
        if self.get(key) != value:
            self._journal.put(self.entries, key, RememberedValue(value, self._now))

    def forget(self, key: str = "") -> None:
        self._journal.drop(self.entries, key)

    def items(self) -> list[tuple[str, T]]:
        """All values, in the order of their keys."""
        return [(key, self.entries[key].value) for key in sorted(self.entries)]

    def __contains__(self, key: str) -> bool:
        return key in self.entries


class Memory:
    """All facts of one session."""

    def __init__(self, snapshot: Snapshot, journal: Journal, now: float) -> None:
        self._snapshot, self._journal, self._now = snapshot, journal, now
        self._asked: dict[tuple[str, str], tuple[Remember[Any], Remembered[Any]]] = {}
        self._declared: set[tuple[str, str]] = set()
        self._read: dict[tuple[str, str], list[Fact]] = {}
        for fact in snapshot.cluster.facts:
            self._read.setdefault((fact.plugin, fact.name), []).append(fact)

    def close(self) -> None:
        """Drop everything: values refer to the memory, and it to the snapshot."""
        vars(self).clear()

    def of(self, plugin: str, what: Remember[T]) -> Remembered[T]:
        """The values of a fact; they are forgotten at the end of the cycle unless it is declared, too."""
        found = self._asked.get((plugin, what.name))
        if found is None:
            entries: dict[str, RememberedValue] = {}
            for fact in self._read.get((plugin, what.name), ()):
                self._take(what, fact, entries)
            kept = Remembered[T](self._journal, self._now, entries, lambda key: self._uid(what.about, key) is not None)
            found = self._asked[plugin, what.name] = (what, kept)
        elif found[0] is not what:
            raise ValueError(f"plugin `{plugin}` remembers two things by the name `{what.name}`")
        return found[1]

    def declare(self, plugin: str, what: Remember[T]) -> Remembered[T]:
        """The values of a fact, which the next cycle finds again."""
        self._declared.add((plugin, what.name))
        return self.of(plugin, what)

    def facts(self) -> tuple[Fact, ...]:
        """Everything that the next cycle must find again."""
        found = []
        for (plugin, name), (what, kept) in self._asked.items():
            if (plugin, name) in self._declared:
                for key, (value, at) in kept.entries.items():
                    made, uid = msgspec.to_builtins(value, str_keys=True), self._uid(what.about, key) or ""
                    found.append(Fact(plugin, name, at, made, what.about, key, uid))
        return tuple(sorted(found, key=lambda fact: fact.identity))

    def _take(self, what: Remember[Any], fact: Fact, entries: dict[str, RememberedValue]) -> None:
        uid = self._uid(fact.about, fact.key)
        if fact.about is not what.about or uid is None or (fact.about is About.JOB and uid != fact.uid):
            return
        try:
            value = msgspec.convert(fact.value, what.type, str_keys=True)
        except msgspec.ValidationError:
            return
        known = entries.get(fact.key)
        if known is not None:
            value = what.merge(known.value, value)
        entries[fact.key] = RememberedValue(value, fact.at if known is None else max(fact.at, known.at))

    def _uid(self, about: About, key: str) -> str | None:
        """The uid of an object; empty if it has none, `None` if it does not exist."""
        snapshot = self._snapshot
        if about is About.JOB:
            row = snapshot.jobs.number.get(key)
            return None if row is None else snapshot.jobs.jobs[row].uid
        if about is About.QUEUE:
            return "" if key in snapshot.queues.number else None
        if about is About.NODE:
            return "" if key in snapshot.nodes.row else None
        return None if key else ""


class Moment(msgspec.Struct, frozen=True):
    """When something last happened."""

    at: float


ROUND = Remember("round", About.CLUSTER, Moment, later)
"""The last round of evictions of a plugin that names victims; the actions that evict them set it."""


class LostElection(msgspec.Struct, frozen=True):
    """When a job lost its election, and how often the time did not suffice."""

    at: float
    times: int = 0


ELECT = "elect"
LOST = Remember("lost", About.JOB, LostElection, later)
"""A job that lost its election and lets others have their turn. It belongs to the election, not to a plugin."""
