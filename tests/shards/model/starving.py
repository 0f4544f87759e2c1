"""Endless runs in which a job is passed over again and again, although everybody does what must be done.

An endless run stays in the end among states that can all reach each other. It is fair, and so could really happen, if

- what the API server, kubelets and users do happens if it is possible again and again; so does what a process writes
  into its Shard;
- what else a process does happens if it is possible all the time: it may come too late for a chance again and again;
- a pause ends only when nothing else can happen, because pauses double;
- answers arrive from some time on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

LOST, PAUSE = 0, 1
"""Kinds of steps: an answer is lost; a pause ends. Others count up from here."""


@dataclass
class Duties:
    """What must happen in a fair run, as numbers."""

    known: dict[str, int] = field(default_factory=lambda: {"lost": LOST, "pause": PAUSE})
    strong: list[bool] = field(default_factory=lambda: [False, False])
    """Whether it happens if it is possible again and again, and not only if it is possible all the time."""

    def number(self, text: str) -> int:
        actor, _, what = text.partition(": ")
        if what.startswith("gets no answer"):
            return LOST
        if actor == "time":
            return PAUSE
        if what.startswith("announces"):
            text = f"{actor}: announces"
        if text not in self.known:
            self.known[text] = len(self.known)
            is_outside = actor in ("API server", "kubelets", "user", "controllers")
            self.strong.append(is_outside or what.startswith(("learns", "writes into its Shard")))
        return self.known[text]


@dataclass(frozen=True)
class Graph:
    """Steps between states, each from a source to a target, and its kind."""

    states: int
    source: Ints
    target: Ints
    kind: Ints
    duties: Duties

    def starving(self, among: Mask) -> list[int]:
        """Find a fair endless run among these states. Returns the states of one round, or nothing."""
        busy = np.zeros(self.states, np.bool_)
        busy[self.source[self.kind > PAUSE]] = True
        usual = (self.kind > PAUSE) | ((self.kind == PAUSE) & ~busy[self.source])
        strong = np.array(self.duties.strong)[self.kind]
        alive = among.copy()
        while alive.any():
            inner = usual & alive[self.source] & alive[self.target]
            edges = (np.ones(int(inner.sum()), np.int8), (self.source[inner], self.target[inner]))
            _, found = connected_components(csr_array(edges, shape=(self.states,) * 2), connection="strong")
            part = found.astype(np.int64)
            happens = inner & (part[self.source] == part[self.target])
            alive &= np.isin(part, part[self.source[happens]])  # the others are left for ever
            what = part[self.source] * len(self.duties.known) + self.kind
            missing = alive[self.source] & (self.kind > LOST) & usual & ~np.isin(what, what[happens])
            always = missing & self._always(part, what, missing)
            unfair = np.isin(part, part[self.source[always]])
            late = missing & strong & ~unfair[self.source]
            fair = alive & ~unfair & ~np.isin(part, part[self.source[late]])
            if fair.any():
                return self._round(happens & (part[self.source] == part[int(fair.argmax())]))
            alive &= ~unfair
            alive[self.source[late]] = False
        return []

    def _always(self, part: Ints, what: Ints, among: Mask) -> Mask:
        """Which steps are possible in all states of their part."""
        rows = np.flatnonzero(among)
        pairs = np.unique(np.stack([what[rows], self.source[rows]]), axis=1)
        each, count = np.unique(pairs[0], return_counts=True)
        size = np.bincount(part)
        found = np.zeros(len(what), np.bool_)
        found[rows] = count[np.searchsorted(each, what[rows])] == size[part[self.source[rows]]]
        return found

    def _round(self, happens: Mask) -> list[int]:
        """A fair way through states that can all reach each other. It ends where it begins."""
        after: dict[int, list[Edge]] = {}
        for row in np.flatnonzero(happens).tolist():
            edge = Edge(int(self.target[row]), int(self.kind[row]))
            after.setdefault(int(self.source[row]), []).append(edge)
        possible: dict[int, set[int]] = {state: set() for state in after}
        for row in np.flatnonzero((self.kind > PAUSE) & np.isin(self.source, list(after))).tolist():
            possible[int(self.source[row])].add(int(self.kind[row]))
        way = _Way(after, possible, self.duties)
        while way.lacks():
            way.go(way.helps)
            way.go(lambda edge: edge.target == way.begin)
        return way.path


class Edge(NamedTuple):
    target: int
    kind: int


class _Way:
    """A way that grows by the shortest ways to what it still lacks."""

    def __init__(self, after: dict[int, list[Edge]], possible: dict[int, set[int]], duties: Duties) -> None:
        self._after, self._possible, self._duties = after, possible, duties
        self.begin = min(after)
        self.path = [self.begin]
        self._done: set[int] = set()
        self._due: set[int] = set()
        """What must happen, and does not."""
        self._open: set[int] = set()
        """What is possible all the time: it must happen, or a state must come in which it is not possible."""

    def lacks(self) -> bool:
        """Whether a run that repeats this way is not fair yet."""
        possible = [self._possible[state] for state in self.path]
        self._due = {kind for kind in set.union(*possible) if self._duties.strong[kind]} - self._done
        self._open = set.intersection(*possible) - self._done - self._due
        return bool(self._due or self._open)

    def helps(self, edge: Edge) -> bool:
        return edge.kind in self._due | self._open or bool(self._open - self._possible[edge.target])

    def go(self, is_last: Callable[[Edge], bool]) -> None:
        """Up to the nearest step of some kind."""
        begin = self.path[-1]
        before: dict[int, tuple[int, int]] = {}
        queue = deque([begin])
        while queue:
            here = queue.popleft()
            for edge in self._after[here]:
                if is_last(edge):
                    self._append(before, begin, here, edge)
                    return
                if edge.target not in before:
                    before[edge.target] = here, edge.kind
                    queue.append(edge.target)
        raise AssertionError("these states can all reach each other")

    def _append(self, before: dict[int, tuple[int, int]], begin: int, here: int, last: Edge) -> None:
        way = [last]
        while here != begin:
            source, kind = before[here]
            way.append(Edge(here, kind))
            here = source
        self.path += [edge.target for edge in reversed(way)]
        self._done |= {edge.kind for edge in way}
