"""Nodes of the model `rates`: a job lies inside one node, or on whole nodes with its rest inside one more.

Jobs that keep their size stay where they are. If a job does not fit, small parts move together to make room, which
restarts their jobs. What still does not fit gets as many GPUs as do.
"""

from __future__ import annotations

from collections.abc import Mapping

Part = tuple[int, int]
"""A node and the GPUs on it."""


class Packing:
    """The places of all running jobs."""

    def __init__(self, nodes: int, gpus_per_node: int) -> None:
        self._each = gpus_per_node
        self._free = [gpus_per_node] * nodes
        self._parts: dict[int, list[Part]] = {}

    def settle(self, sizes: Mapping[int, int], least: Mapping[int, int]) -> tuple[dict[int, int], set[int]]:
        """Place jobs at these sizes (0: stop). Returns the sizes that fit, and the jobs that moved at the same size.

        A job that is not in `sizes` stays. `least` is the smallest size of each job; with fewer GPUs it gets none.
        """
        for job in sizes:
            self.remove(job)
        stays = set(self._parts)
        reached: dict[int, int] = {}
        moved: set[int] = set()
        for job in sorted(sizes, key=lambda job: (-sizes[job], job)):
            size = min(sizes[job], sum(self._free))
            while size >= max(least[job], 1) and not self._place(job, size, moved):
                size -= 1
            reached[job] = size if size >= max(least[job], 1) else 0
        return reached, moved & stays

    def remove(self, job: int) -> None:
        for node, count in self._parts.pop(job, ()):
            self._free[node] += count

    def _place(self, job: int, size: int, moved: set[int]) -> bool:
        """Place one job, after making room if needed; changes nothing if it does not fit."""
        free, parts, had = self._free.copy(), dict(self._parts), set(moved)
        whole, rest = divmod(size, self._each)
        taken: list[Part] = []
        while len(taken) < whole:
            node = self._roomiest(self._each, moved)
            if node is None:
                break
            self._free[node] = 0
            taken.append((node, self._each))
        else:
            node = self._roomiest(rest, moved) if rest else None
            if rest and node is not None:
                self._free[node] -= rest
                taken.append((node, rest))
            if not rest or node is not None:
                self._parts[job] = taken
                return True
        self._free, self._parts = free, parts
        moved.clear()
        moved |= had
        return False

    def _roomiest(self, gpus: int, moved: set[int]) -> int | None:
        """The node that takes these GPUs with the least to spare; if none does, a node from which parts move away."""
        fits = [node for node, free in enumerate(self._free) if free >= gpus]
        if fits:
            return min(fits, key=lambda node: (self._free[node], node))
        for node in sorted(range(len(self._free)), key=lambda node: (-self._free[node], node)):
            if self._clear(node, gpus, moved):
                return node
        return None

    def _clear(self, node: int, gpus: int, moved: set[int]) -> bool:
        """Move the smallest parts from a node to others until it has room; changes nothing if that is impossible."""
        free, parts, had = self._free.copy(), dict(self._parts), set(moved)
        here = [(count, job) for job, all_ in self._parts.items() for at, count in all_ if at == node]
        for count, job in sorted(here):
            if self._free[node] >= gpus:
                break
            others = [n for n, room in enumerate(self._free) if n != node and room >= count]
            if count == self._each or not others:
                continue
            target = min(others, key=lambda n: (self._free[n], n))
            self._free[node] += count
            self._free[target] -= count
            self._parts[job] = [(target, count) if part == (node, count) else part for part in self._parts[job]]
            moved.add(job)
        if self._free[node] >= gpus:
            return True
        self._free, self._parts = free, parts
        moved.clear()
        moved |= had
        return False
