"""The journal: every change of a session, so that a rollback can undo it.

    add     a number in a column: undone by subtraction, so a column is restored exactly
    put     an entry of a dictionary
    record  the same for a result on which no cache depends, such as a note
    drop    the removal of an entry
    assign  an attribute

`State` is a journal with the columns of the session; the session also writes its dictionaries through it. Caches of
journaled data are not written here: they follow `touched_since` or `version`.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from maar.model.resources import Ints

Array = npt.NDArray[Any]
K = TypeVar("K")
V = TypeVar("V")

_ABSENT = object()


class Mark(msgspec.Struct, frozen=True):
    """A point to roll back to."""

    added: int
    replaced: int
    touched: int
    version: int


class Journal:
    """The changes since the outermost statement began."""

    CACHES: ClassVar[frozenset[str]] = frozenset({"_added", "_replaced", "_touched", "_last", "version", "cursor"})
    """Attributes that a rollback does not restore: the journal's own."""

    def __init__(self, nodes: int = 0) -> None:
        self._added: list[tuple[Array, Any, Any]] = []
        """Column, index, delta. Plain tuples, because there are millions."""
        self._replaced: list[tuple[dict[Any, Any], Any, Any]] = []
        """Dictionary, key, and the previous value."""
        self._touched: Ints = np.zeros(nodes, dtype=np.int64)
        """For each node row, the cursor after its last change."""
        self.cursor = 0
        """The cursor of a reader that has seen all changes of node rows so far: it grows with every change."""
        self.version = 0
        """Another one after each change, and the one of before after a rollback: equal versions mean an equal state."""
        self._last = 0
        """The last version: none is given twice."""

    # -- changes

    def add(self, column: Array, index: Any, delta: Any) -> None:
        """Add to a column. An index array must not contain an index twice."""
        column[index] += delta
        self._added.append((column, index, delta))
        self.version = self._last = self._last + 1

    def put(self, where: dict[K, V], key: K, value: V) -> None:
        self.record(where, key, value)
        self.version = self._last = self._last + 1

    def record(self, where: dict[K, V], key: K, value: V) -> None:
        self._replaced.append((where, key, where.get(key, _ABSENT)))
        where[key] = value

    def drop(self, where: dict[K, V], key: K) -> None:
        """Remove an entry of a dictionary, if it exists."""
        if key in where:
            self._replaced.append((where, key, where.pop(key)))
            self.version = self._last = self._last + 1

    def assign(self, owner: object, name: str, value: object) -> None:
        self.put(vars(owner), name, value)

    def touch(self, rows: Ints) -> None:
        """Record that these node rows changed."""
        self.cursor += 1
        self._touched[rows] = self.cursor

    # -- undoing

    def mark(self) -> Mark:
        """The current position in the journal."""
        return Mark(len(self._added), len(self._replaced), self.cursor, self.version)

    def rollback(self, mark: Mark) -> None:
        """Undo everything since `mark`, last first."""
        self.version = mark.version
        while len(self._added) > mark.added:
            column, index, delta = self._added.pop()
            column[index] -= delta
        while len(self._replaced) > mark.replaced:
            where, key, before = self._replaced.pop()
            if before is _ABSENT:
                del where[key]
            else:
                where[key] = before
        undone, _ = self.touched_since(mark.touched)
        if undone is not None:
            self.touch(undone)

    def forget(self) -> None:
        """Drop the history: nothing before this point can be undone."""
        self._added.clear()
        self._replaced.clear()

    # -- for caches

    def touched_since(self, cursor: int) -> tuple[Ints | None, int]:
        """The node rows that changed since `cursor`, and the new cursor."""
        if cursor == self.cursor:
            return None, cursor
        return (self._touched > cursor).nonzero()[0], self.cursor
