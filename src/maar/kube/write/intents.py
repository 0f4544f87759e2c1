"""Intents: the dangerous writes that may be on their way, announced on the Lease before they are sent.

They stand between the executor and the Lease. The executor asks for an intent for each write; the election fetches all
that are due and writes them together, which also renews the Lease. While one batch is being written, the next one
gathers. An intent is the path of the object, because a successor only has to move the object's version. It stands until
the write is settled: answered, or fenced. A decided eviction (`decided`) is announced with the uid of its pod, all of
one gang in one write: either all of them are decided or none. They go first, because evictions wait for them that stand
already.

    announce ──► gathered ──► drafted: the version is fixed ──► written on every Lease: the write may be sent
                                                                 settled ──► not in the next draft
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from maar.kube.write.decided import DecidedVictim

LONGEST = 100_000
"""Characters of all intents together, and of all decided evictions together. The annotations of an object may have
256 kB in total."""


class Gate(Protocol):
    """Whether writes may be sent. The executor asks it."""

    @property
    def epoch(self) -> int:
        """How often the leader has changed."""

    @property
    def lost(self) -> bool:
        """Whether another process may lead by now."""

    def announce(self, path: str, fix: Callable[[], None], then: Callable[[], None]) -> None:
        """Announce a write: `fix` determines its version, and after the announcement `then` is called."""

    def decide(self, victims: Callable[[], list[DecidedVictim]], then: Callable[[], None]) -> None:
        """Announce evictions as decided, all or none: those that `victims` returns when the Lease is written."""

    def settled(self, path: str) -> None:
        """A write can no longer take effect, or has taken it."""


class Unfenced:
    """A gate without a lease, for schedulers that are the only one on their server by construction."""

    epoch = 0
    lost = False

    def announce(self, path: str, fix: Callable[[], None], then: Callable[[], None]) -> None:
        fix()
        then()

    def decide(self, victims: Callable[[], list[DecidedVictim]], then: Callable[[], None]) -> None:
        then()

    def settled(self, path: str) -> None: ...


class Election(Protocol):
    """What the intents need to know of a lease."""

    epoch: int
    leading: bool
    succeeds: bool

    @property
    def lost(self) -> bool: ...


class Draft(NamedTuple):
    """The intents as the next write of the Lease states them."""

    number: int
    text: str
    decided: tuple[DecidedVictim, ...] = ()


@dataclass(slots=True)
class _Wanted:
    path: str
    fix: Callable[[], None]
    then: Callable[[], None]


@dataclass(slots=True)
class _Decided:
    victims: Callable[[], list[DecidedVictim]]
    then: Callable[[], None]


@dataclass(slots=True)
class _Page:
    """One Lease that the intents are written on."""

    election: Election
    ring: Callable[[], None]
    written: int = 0


@dataclass(slots=True)
class Intents:
    """The intents of one leader. `few` and `most` bound how many stand at once."""

    few: int = 128
    """A new batch is written while no more than this stand: fewer would leave the executor without work."""
    most: int = 256
    announcing: bool = True
    """False: nothing is announced. Only to measure what the announcements cost."""
    batches: int = 0
    _pages: list[_Page] = field(default_factory=list)
    _gathered: deque[_Wanted] = field(default_factory=deque)
    _deciding: deque[_Decided] = field(default_factory=deque)
    _drafted: deque[tuple[int, list[_Wanted | _Decided]]] = field(default_factory=deque)
    _standing: set[str] = field(default_factory=set)
    _decided: dict[str, DecidedVictim] = field(default_factory=dict)
    """Standing evictions that are decided, by path."""
    _inherited: set[str] = field(default_factory=set)
    _inherited_decided: dict[str, DecidedVictim] = field(default_factory=dict)
    _length: int = 0
    """Characters of all standing and inherited paths."""
    _unreadable: str = ""
    """What an earlier leader announced, if it cannot be read."""

    # -- for the executor

    @property
    def epoch(self) -> int:
        return max((page.election.epoch for page in self._pages if page.election.leading), default=0)

    @property
    def lost(self) -> bool:
        return any(page.election.lost for page in self._pages)

    def announce(self, path: str, fix: Callable[[], None], then: Callable[[], None]) -> None:
        if not self.announcing:
            fix()
            then()
            return
        self._gathered.append(_Wanted(path, fix, then))
        self._ring_if_due()

    def decide(self, victims: Callable[[], list[DecidedVictim]], then: Callable[[], None]) -> None:
        if not self.announcing:
            then()
            return
        self._deciding.append(_Decided(victims, then))
        self._ring_if_due()

    def settled(self, path: str) -> None:
        self._decided.pop(path, None)
        if path in self._standing:
            self._standing.discard(path)
            self._length -= len(path)
            self._ring_if_due()

    def _ring_if_due(self) -> None:
        due = self._gathered and len(self._standing) <= self.few and self._has_room(self._gathered[0].path)
        if due or (self._deciding and self._has_room_for(self._deciding[0].victims())):
            for page in self._pages:
                page.ring()

    # -- for the elections

    def page(self, election: Election, ring: Callable[[], None]) -> int:
        """A Lease to write on; `ring` asks it for a write. Returns its number."""
        self._pages.append(_Page(election, ring))
        return len(self._pages) - 1

    def draft(self) -> Draft:
        """Take in what has gathered, as much as there is room for, and fix the versions of these writes."""
        taken: list[_Wanted | _Decided] = []
        while self._deciding and self._has_room_for(victims := self._deciding[0].victims()):
            for victim in victims:
                self._stand(victim.path)
                self._decided[victim.path] = victim
            taken.append(self._deciding.popleft())
        while self._gathered and self._has_room(self._gathered[0].path):
            wanted = self._gathered.popleft()
            self._stand(wanted.path)
            wanted.fix()
            taken.append(wanted)
        if taken:
            self.batches += 1
            self._drafted.append((self.batches, taken))
        return Draft(self.batches, self.text(), self.decided())

    def _stand(self, path: str) -> None:
        if path not in self._standing:
            self._standing.add(path)
            self._length += len(path)

    def written(self, page: int, number: int) -> None:
        """A draft is on a Lease. What is on all of them may be sent."""
        self._pages[page].written = number
        self.flush()

    def flush(self) -> None:
        """Let go what is on all Leases that are held now: one may have been given back."""
        on_all = min((each.written for each in self._pages if each.election.leading), default=0)
        while self._drafted and self._drafted[0][0] <= on_all:
            for wanted in self._drafted.popleft()[1]:
                wanted.then()
        self._ring_if_due()

    def text(self) -> str:
        """What still stands. Until everything is fenced, the next leader must not read what this one could not."""
        return self._unreadable or write_paths(self._standing | self._inherited)

    def decided(self) -> tuple[DecidedVictim, ...]:
        """The decided evictions that still stand."""
        return tuple((self._inherited_decided | self._decided).values())

    def _has_room_for(self, victims: list[DecidedVictim]) -> bool:
        """Whether all of them can be announced as decided now. Their number does not count: they must not wait."""
        standing = self.decided()
        return not standing or sum(victim.length for victim in (*standing, *victims)) <= LONGEST

    def _has_room(self, path: str) -> bool:
        if path in self._standing:
            return True
        return len(self._standing) < self.most and (self._length + len(path) <= LONGEST or not self._standing)

    # -- for the take-over

    @property
    def succeeds(self) -> bool:
        """Whether another process has led before."""
        return any(page.election.succeeds for page in self._pages)

    @property
    def inherited(self) -> frozenset[str]:
        """What earlier leaders have announced and not settled."""
        return frozenset(self._inherited)

    def inherit(self, paths: Iterable[str]) -> None:
        new = set(paths) - self._inherited
        self._inherited |= new
        self._length += sum(map(len, new))

    @property
    def inherited_decided(self) -> dict[str, DecidedVictim]:
        """Evictions that earlier leaders have decided and not settled, by path: they are carried out."""
        return dict(self._inherited_decided)

    def inherit_decided(self, victims: Iterable[DecidedVictim]) -> None:
        self._inherited_decided |= {victim.path: victim for victim in victims}
        self.inherit(self._inherited_decided)

    @property
    def unreadable(self) -> bool:
        """Whether earlier leaders may have announced any object: somebody has changed the annotation."""
        return bool(self._unreadable)

    def inherit_unreadable(self, text: str) -> None:
        self._unreadable = text

    def fenced_one(self, path: str) -> None:
        """One inherited object is settled. The next write of the Lease drops it: no successor fences it again."""
        self._inherited_decided.pop(path, None)
        if path in self._inherited:
            self._inherited.discard(path)
            self._length -= len(path)

    def fenced(self) -> None:
        """Everything inherited is settled."""
        self._unreadable = ""
        self._length -= sum(map(len, self._inherited))
        self._inherited.clear()
        self._inherited_decided.clear()


def write_paths(paths: Iterable[str]) -> str:
    """Paths of objects as text: names by the path of their collection. Empty without paths."""
    names: dict[str, list[str]] = {}
    for path in sorted(paths):
        collection, _, name = path.rpartition("/")
        names.setdefault(collection, []).append(name)
    return msgspec.json.encode(names).decode() if names else ""


def read_paths(text: str) -> list[str]:
    """The paths in such a text; `ValueError` if it is none."""
    if not text:
        return []
    try:
        names = msgspec.json.decode(text, type=dict[str, list[str]])
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    return [f"{collection}/{name}" for collection, of in names.items() for name in of]
