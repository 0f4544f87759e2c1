"""The store: all objects, their versions and the recent events. The server keeps no other state.

The verbs (`maar.embedded.objects.api`) use it; it uses none of them. A table holds the objects of one resource and a
bounded history of events. Every write to any table takes the next resourceVersion. Stored objects never change in
place: a write replaces them. So a snapshot is a copy of a dictionary, and an object is encoded once for all readers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from maar.embedded.objects.errors import Obj, expired
from maar.embedded.objects.kinds import Kind

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class Item:
    """One object at one version, stored without `kind` and `apiVersion`."""

    __slots__ = ("_body", "obj", "version")

    def __init__(self, obj: Obj, version: int) -> None:
        self.obj = obj
        self.version = version
        self._body: bytes | None = None

    @property
    def body(self) -> bytes:
        """The object as JSON, encoded once."""
        if self._body is None:
            self._body = encode(self.obj)
        return self._body

    def copy(self) -> Obj:
        """A copy that the caller may change and write back."""
        copied: Obj = decode(self.body)
        return copied

    def shown(self, kind: Kind) -> Obj:
        """The object as clients of the kind see it."""
        obj = kind.from_store(self.obj) if kind.from_store else self.obj
        return {"kind": kind.kind, "apiVersion": kind.api_version, **obj}

    def rendered(self, kind: Kind) -> bytes:
        """The JSON as clients of the kind see it."""
        body = encode(kind.from_store(self.obj)) if kind.from_store else self.body
        return kind.prefix + body[1:]


class Event:
    """One write: its type, the object after it, and the object before it."""

    __slots__ = ("_lines", "item", "key", "previous", "type")

    def __init__(self, type: str, key: Key, item: Item, previous: Item | None) -> None:
        self.type = type
        self.key = key
        self.item = item
        self.previous = previous
        self._lines: dict[tuple[Kind, str], bytes] = {}

    @property
    def version(self) -> int:
        """The resourceVersion of the write."""
        return self.item.version

    def line(self, kind: Kind, type: str) -> bytes:
        """One line of a watch, encoded once for all watchers of a kind.

        `type` differs from the event's own type when an object enters or leaves a selection.
        """
        line = self._lines.get((kind, type))
        if line is None:
            line = watch_line(type, self.object(type).rendered(kind))
            self._lines[kind, type] = line
        return line

    def object(self, type: str) -> Item:
        """The object in a watch line. When it leaves a selection: its previous state, at the version of this event."""
        if type != "DELETED" or self.type == "DELETED" or self.previous is None:
            return self.item
        return Item(with_version(self.previous.obj, self.version), self.version)


def watch_line(type: str, body: bytes) -> bytes:
    return b'{"type":"' + type.encode() + b'","object":' + body + b"}\n"


def with_version(obj: Obj, version: int) -> Obj:
    """A copy of the object with another resourceVersion."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


class Table:
    """The objects of one resource."""

    def __init__(self, floor: int, history: int) -> None:
        self.items: dict[Key, Item] = {}
        self.events: deque[Event] = deque(maxlen=history)
        self.floor = floor
        """All events after this version are still stored."""
        self.listeners: list[Callable[[Event], None]] = []
        """Called at once for every event. Must not write."""
        self.on_drop: list[Callable[[], None]] = []
        """Called when the whole table is removed."""

    def take(self, event: Event) -> None:
        """Apply an event and call the listeners."""
        if event.type == "DELETED":
            del self.items[event.key]
        else:
            self.items[event.key] = event.item
        if len(self.events) == self.events.maxlen:
            self.floor = self.events[0].version if self.events else event.version
        self.events.append(event)
        for listener in tuple(self.listeners):
            listener(event)

    def since(self, version: int, now: int) -> list[Event]:
        """The events after a version. Raises 410 if some of them are no longer stored."""
        if version < self.floor:
            raise expired(f"too old resource version: {version} ({self.floor})")
        return list(reversed(list(self._newest(version)))) if version < now else []

    def _newest(self, version: int) -> Iterator[Event]:
        for event in reversed(self.events):
            if event.version <= version:
                return
            yield event

    def at(self, version: int, now: int) -> dict[Key, Item]:
        """All objects as they were at a version: later events are undone."""
        if version >= now:
            return self.items
        past = dict(self.items)
        for event in reversed(self.since(version, now)):
            if event.previous is None:
                del past[event.key]
            else:
                past[event.key] = event.previous
        return past

    def forget(self, keep: int, now: int) -> None:
        """Drop all but the newest events, as compaction does."""
        drop = max(len(self.events) - keep, 0)
        for event in islice(tuple(self.events), drop):
            self.floor = event.version
            self.events.popleft()
        if not keep:
            self.floor = now


class Store:
    """All tables and the shared version counter."""

    def __init__(self, history: int) -> None:
        self.version = 1
        self.history = history
        self.tables: dict[tuple[str, str], Table] = {}
        self.listeners: list[Callable[[tuple[str, str], Event], None]] = []
        """Called for the events of all tables, including tables added later. Must not write."""

    def table(self, kind: Kind) -> Table:
        """The table of a kind, created on first use."""
        table = self.tables.get(kind.table)
        if table is None:
            table = self.tables[kind.table] = Table(self.version, self.history)
        return table

    def write(self, kind: Kind, key: Key, obj: Obj) -> Item:
        """Store a new or changed object at the next version."""
        table = self.table(kind)
        previous = table.items.get(key)
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        item = Item(obj, self.version)
        self._take(kind, Event("MODIFIED" if previous else "ADDED", key, item, previous))
        return item

    def remove(self, kind: Kind, key: Key) -> Item:
        """Remove an object, and return its last state at the version of the removal."""
        table = self.table(kind)
        previous = table.items[key]
        self.version += 1
        item = Item(with_version(previous.obj, self.version), self.version)
        self._take(kind, Event("DELETED", key, item, previous))
        return item

    def _take(self, kind: Kind, event: Event) -> None:
        self.table(kind).take(event)
        for listener in self.listeners:
            listener(kind.table, event)

    def drop_table(self, kind: Kind) -> None:
        """Remove a table and its objects. Its watchers see the objects go, then their watches end."""
        table = self.tables.get(kind.table)
        if table is not None:
            for key in sorted(table.items):
                self.remove(kind, key)
            del self.tables[kind.table]
            for dropped in tuple(table.on_drop):
                dropped()
