"""Objects, their versions and what happened to them: the server's only memory.

Below the verbs (`maar.embedded.objects.api`), above nothing. A table holds the objects of one resource and a bounded
history of events; every write of any table takes the next resourceVersion. Stored objects are never changed in place: a
write replaces them, so a snapshot is a copy of a dictionary and bytes are encoded once for all who read them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from maar.embedded.objects.errors import Obj, expired
from maar.embedded.objects.kinds import Kind

Key = tuple[str, str]
"""Namespace (empty for what has none) and name."""

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class Item:
    """One object as it is at one version: without `kind` and `apiVersion`, which its kind adds."""

    __slots__ = ("_body", "obj", "version")

    def __init__(self, obj: Obj, version: int) -> None:
        self.obj = obj
        self.version = version
        self._body: bytes | None = None

    @property
    def body(self) -> bytes:
        """Its JSON, encoded once."""
        if self._body is None:
            self._body = encode(self.obj)
        return self._body

    def copy(self) -> Obj:
        """An object of one's own, to be changed and written back."""
        copied: Obj = decode(self.body)
        return copied

    def shown(self, kind: Kind) -> Obj:
        """The object as a client of that kind sees it."""
        obj = kind.from_store(self.obj) if kind.from_store else self.obj
        return {"kind": kind.kind, "apiVersion": kind.api_version, **obj}

    def rendered(self, kind: Kind) -> bytes:
        """Its bytes as a client of that kind sees them."""
        body = encode(kind.from_store(self.obj)) if kind.from_store else self.body
        return kind.prefix + body[1:]


class Event:
    """One write: what it was, what came of it, and what was there before."""

    __slots__ = ("_lines", "item", "key", "previous", "type")

    def __init__(self, type: str, key: Key, item: Item, previous: Item | None) -> None:
        self.type = type
        self.key = key
        self.item = item
        self.previous = previous
        self._lines: dict[tuple[int, str], bytes] = {}

    @property
    def version(self) -> int:
        """The version that the write made."""
        return self.item.version

    def line(self, kind: Kind, type: str) -> bytes:
        """One line of a watch, encoded once for all watchers of a kind.

        `type` differs from the event's own where an object enters or leaves a selection.
        """
        line = self._lines.get((id(kind), type))
        if line is None:
            line = watch_line(type, self.object(type).rendered(kind))
            self._lines[id(kind), type] = line
        return line

    def object(self, type: str) -> Item:
        """What a watcher is shown: one that sees an object leave gets it as it was, at the version of the leaving."""
        if type != "DELETED" or self.type == "DELETED" or self.previous is None:
            return self.item
        return Item(with_version(self.previous.obj, self.version), self.version)


def watch_line(type: str, body: bytes) -> bytes:
    """A line of a watch."""
    return b'{"type":"' + type.encode() + b'","object":' + body + b"}\n"


def with_version(obj: Obj, version: int) -> Obj:
    """The object at another version."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


class Table:
    """The objects of one resource."""

    def __init__(self, floor: int, history: int) -> None:
        self.items: dict[Key, Item] = {}
        self.events: deque[Event] = deque(maxlen=history)
        self.floor = floor
        """Events after this version are all still known."""
        self.listeners: list[Callable[[Event], None]] = []
        """Called at once for every event; must not write."""
        self.on_drop: list[Callable[[], None]] = []
        """Called when the whole table goes."""

    def take(self, event: Event) -> None:
        """Carry out an event and tell everybody."""
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
        """The events after a version; 410 where they are no longer all known."""
        if version < self.floor:
            raise expired(f"too old resource version: {version} ({self.floor})")
        return list(reversed(list(self._newest(version)))) if version < now else []

    def _newest(self, version: int) -> Iterator[Event]:
        for event in reversed(self.events):
            if event.version <= version:
                return
            yield event

    def at(self, version: int, now: int) -> dict[Key, Item]:
        """All objects as they were at a version: what happened since is undone."""
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
    """All tables, and the one counter of versions."""

    def __init__(self, history: int) -> None:
        self.version = 1
        self.history = history
        self.tables: dict[tuple[str, str], Table] = {}
        self.listeners: list[Callable[[tuple[str, str], Event], None]] = []
        """Called for the events of all tables, those to come included; must not write."""

    def table(self, kind: Kind) -> Table:
        """The table of a kind, made when first asked for."""
        table = self.tables.get(kind.table)
        if table is None:
            table = self.tables[kind.table] = Table(self.version, self.history)
        return table

    def write(self, kind: Kind, key: Key, obj: Obj) -> Item:
        """Store an object, new or changed, at the next version."""
        table = self.table(kind)
        previous = table.items.get(key)
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        item = Item(obj, self.version)
        self._take(kind, Event("MODIFIED" if previous else "ADDED", key, item, previous))
        return item

    def remove(self, kind: Kind, key: Key) -> Item:
        """Remove an object; what is returned is its last state, at the version of the removal."""
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
        """Forget a table with everything in it; its watchers see the objects go, and then their watches end."""
        table = self.tables.get(kind.table)
        if table is not None:
            for key in sorted(table.items):
                self.remove(kind, key)
            del self.tables[kind.table]
            for dropped in tuple(table.on_drop):
                dropped()
