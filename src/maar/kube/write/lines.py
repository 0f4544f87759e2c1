"""The writes of the executor that have not ended, and whose turn is next.

There are two lanes. Binds, evictions, resizes and all that decisions or later leaders depend on have one. What people
read (statuses, notes) has the other, in which the namespaces take turns. Writes to the same object have a line: they
are sent one after the other, and a write of the first lane overtakes statuses that are not in flight.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from maar.kube.client.errors import ApiError
from maar.kube.write.decided import DecidedVictim
from maar.kube.write.guarded import Evict, Guarded
from maar.kube.write.intents import LONGEST
from maar.kube.write.outcomes import Outcome
from maar.kube.write.turns import TenantTurns, tenant_of
from maar.kube.write.work import Patch, Work

Callback = Callable[[Work, Outcome], None]

SUPERSEDED = "Superseded"
"""The reason of statuses that were not sent, because a later write to their object makes them pointless."""


class Lane(enum.Enum):
    """Which writes go first."""

    FIRST = "first"
    """Binds, evictions, resizes, and all that they or a later leader depend on."""
    STATUS = "status"
    """What people and autoscalers read. It may be late, and a later leader writes what is missing."""


@dataclass(slots=True)
class Entry:
    """One write, until it has ended."""

    work: Work
    done: Callback
    lane: Lane = Lane.FIRST
    since: float = 0.0
    """When it was decided."""
    sent: float | None = None
    """When its first request was written to its connection; another time if it has none."""
    attempts: int = 0
    begun: float = 0.0
    base: Any = None
    """The version of the object that a dangerous write is for."""
    unanswered: bool = False
    """Whether the last request of a dangerous write must be settled."""
    moves: int = 0
    deciding: bool = False
    """Whether the eviction is being announced as decided."""
    decided: bool = False
    """Whether it is, so that it may be sent by uid alone."""
    parked: bool = False
    """Whether nothing is sent before it is decided."""
    doubt: float | None = None
    """When a request by uid alone last got no answer."""
    ended: bool = False
    withdrawn: ApiError | None = None
    """Why it must not be sent any more."""


@dataclass(slots=True)
class Lines:
    """The entries of each key, in order, and the keys whose first entry can start now."""

    entries: dict[str, deque[Entry]] = field(default_factory=dict)
    ready: deque[str] = field(default_factory=deque)
    """The keys of the first lane that can be sent."""
    statuses: TenantTurns[str] = field(default_factory=TenantTurns)
    """The keys of the lane of statuses that can be sent."""
    sending: set[str] = field(default_factory=set)
    """Keys whose first entry is in flight."""

    def join(self, entry: Entry) -> bool:
        """Whether the entry is the first of its key."""
        line = self.entries.setdefault(entry.work.key, deque())
        line.append(entry)
        return len(line) == 1

    def leave(self, key: str) -> bool:
        """The first entry of a key is finished: whether there is another."""
        line = self.entries[key]
        line.popleft()
        if not line:
            del self.entries[key]
        return bool(line)

    def take_statuses(self, key: str) -> list[Entry]:
        """Take out the statuses of a key that are not in flight."""
        line = self.entries.get(key, deque())
        busy = key in self.sending
        kept = [entry for place, entry in enumerate(line) if entry.lane is Lane.FIRST or (busy and not place)]
        taken = [entry for place, entry in enumerate(line) if entry.lane is Lane.STATUS and (place or not busy)]
        if taken:
            self.statuses.discard(tenant_of(key), key)
            if kept:
                self.entries[key] = deque(kept)
            else:
                del self.entries[key]
        return taken

    def ready_in(self, lane: Lane) -> int:
        return len(self.ready if lane is Lane.FIRST else self.statuses)

    def next_in(self, lane: Lane) -> str:
        return self.ready.popleft() if lane is Lane.FIRST else self.statuses.take()


def supersedes(later: Work, status: Work) -> bool:
    """Whether a write makes an earlier status of its object pointless: it is dangerous, or writes the same part."""
    if isinstance(later, Guarded):
        return True
    return isinstance(later, Patch) and isinstance(status, Patch) and later.path == status.path


def victims_of(entries: list[Entry]) -> list[DecidedVictim]:
    """The pods of evictions that have not ended."""
    return [entry.work.victim for entry in entries if isinstance(entry.work, Evict) and not entry.ended]


def parts_of(entries: list[Entry]) -> list[list[Entry]]:
    """Evictions that one write of the Lease has room for: all of a gang, unless it has thousands of pods."""
    parts: list[list[Entry]] = []
    room = 0
    for entry, victim in zip(entries, victims_of(entries), strict=True):
        if room < victim.length:
            parts.append([])
            room = LONGEST
        parts[-1].append(entry)
        room -= victim.length
    return parts
