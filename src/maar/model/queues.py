"""Queues: a tree with weights, guarantees and limits. Each job is charged to one queue.

Queue arithmetic (sums over a cluster, weights) uses Python integers, which do not overflow. An invalid queue (its
parent is missing, or the parents form a cycle) is kept with the reason, so that only its own jobs, and those of the
queues below it, wait.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

ROOT = "root"
DEFAULT = "default"


class Queue(msgspec.Struct, frozen=True):
    """One queue. Amounts are whole units; `None` means not specified."""

    name: str
    weight: int = 1
    capability: dict[str, int] | None = None
    deserved: dict[str, int] | None = None
    guarantee: dict[str, int] | None = None
    parent: str = ""
    priority: int = 0
    reclaimable: bool = True
    open: bool = True
    hierarchy: tuple[str, ...] = ()
    """The path for hdrf, from `volcano.sh/hierarchy`."""
    hierarchy_weights: tuple[int, ...] = ()
    created: float = 0.0
    uid: str = ""
    broken: str = ""
    """Why the queue is invalid; its jobs wait for this reason."""


class QueueTree:
    """All queues of a snapshot, sorted by name. `root` and `default` always exist."""

    def __init__(self, queues: Iterable[Queue]) -> None:
        known = {q.name: q for q in queues}
        known.setdefault(ROOT, Queue(ROOT, reclaimable=False))
        known.setdefault(DEFAULT, Queue(DEFAULT))
        self.queues: list[Queue] = [known[name] for name in sorted(known)]
        self.number: dict[str, int] = {q.name: i for i, q in enumerate(self.queues)}
        self.broken: list[str] = [q.broken for q in self.queues]
        self.path: list[tuple[int, ...]] = [self._path(i) for i in range(len(self.queues))]
        """For each queue: the queue itself, its parent, and so on up to the root."""
        self.children: list[list[int]] = [[] for _ in self.queues]
        for path in self.path:
            if len(path) > 1:
                self.children[path[1]].append(path[0])

    def __len__(self) -> int:
        return len(self.queues)

    @property
    def root(self) -> int:
        return self.number[ROOT]

    def is_leaf(self, queue: int) -> bool:
        return not self.children[queue]

    def _path(self, start: int) -> tuple[int, ...]:
        path = [start]
        while (queue := self.queues[path[-1]]).name != ROOT:
            parent = self.number.get(queue.parent or ROOT)
            if parent is None:
                self._break(start, f"parent queue `{queue.parent}` does not exist")
            elif parent in path:
                cycle = " -> ".join(self.queues[q].name for q in [*path[path.index(parent) :], parent])
                self._break(start, f"its parents form a cycle: {cycle}")
            else:
                path.append(parent)
                continue
            return (start, self.number[ROOT]) if start != self.number[ROOT] else (start,)
        # The limits of an invalid queue are unknown, so the queues below it wait too; root alone must not stop all.
        above = next((q for q in path[1:-1] if self.queues[q].broken), None)
        if above is not None:
            self._break(start, f"parent queue `{self.queues[above].name}` is invalid: {self.queues[above].broken}")
        return tuple(path)

    def _break(self, queue: int, why: str) -> None:
        self.broken[queue] = self.broken[queue] or why
