"""A small cluster to explore: what exists at the start, and how many faults may happen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Node(NamedTuple):
    home: int
    """The shard of its slot."""
    room: int = 1
    """How many pods fit."""
    kept: bool = False
    """Its owner never lends it, for a reason that other shards do not see."""


class Queue(NamedTuple):
    shard: int
    limit: int = 99
    """The most pods that may be bound."""


class Gang(NamedTuple):
    """Gangs are listed in the one order of wants: the first one is the most important."""

    queue: int
    size: int
    least: int = 0
    """How many pods it needs; 0: all."""
    tied: int = -1
    """The only node that it may use, as for a pod of a DaemonSet."""
    late: bool = False
    """Its pods do not exist at the start."""
    on: tuple[int, ...] = ()
    """Nodes of its first pods, if it runs at the start."""
    again: bool = False
    """Its user creates it again whenever it has ended: a stream of small jobs."""


@dataclass(frozen=True)
class Setting:
    name: str
    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    gangs: tuple[Gang, ...]
    shards: int = 2
    take_overs: int = 0
    """How many processes may crash, or freeze and resume while another process holds the Lease."""
    deletions: int = 0
    """How many nodes may be deleted; each may come back."""
    relabelled: tuple[int, ...] = ()
    """Shard of each node's new topology domain, if nodes come back with another label."""
    moves: int = 0
    """How many queues may be routed to another shard."""
    lag: bool = True
    """Processes see pods as of some earlier time, unless they list them."""
    preempt: bool = False
    restless: bool = False
    """Owners may change running pods, so that evictions are refused, and then decided: sent by uid alone."""
    elect: bool = False
    """Nodes are locked for one job that would fit if they were empty."""
    short_deadlines: bool = True
    """Any want may miss its deadline. Otherwise only a want that cannot be served."""

    @cached_property
    def pods(self) -> tuple[int, ...]:
        """The gang of each pod."""
        return tuple(g for g, gang in enumerate(self.gangs) for _ in range(gang.size))

    @cached_property
    def members(self) -> tuple[range, ...]:
        """The pods of each gang."""
        ends = [sum(gang.size for gang in self.gangs[: g + 1]) for g in range(len(self.gangs))]
        return tuple(range(end - gang.size, end) for end, gang in zip(ends, self.gangs, strict=True))

    def least(self, gang: int) -> int:
        return self.gangs[gang].least or self.gangs[gang].size
