"""Thin structs of Maar's own kinds ShardMap and Shard (docs/shards.md)."""

from __future__ import annotations

from msgspec import field

from maar.kube.wire.base import Int, Long, Object, Wire


class ShardMapSpec(Wire, frozen=True, omit_defaults=True):
    """Owners of nodes and queues. JSON has only text as keys, so shards are text where they are keys."""

    shards: Int
    slots: tuple[Int, ...]
    nodes: dict[str, Int] = field(default_factory=dict)
    queues: dict[str, Int] = field(default_factory=dict)
    epochs: dict[str, Long] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)


class ShardMap(Object, frozen=True, kw_only=True):
    """The one map of a cluster."""

    spec: ShardMapSpec


class ShardStatus(Wire, frozen=True):
    """Figures for people."""

    holder: str = ""
    epoch: Long = 0
    nodes: Int = 0
    lent: Int = 0
    borrowed: Int = 0
    queues: Int = 0
    waiting: Int = 0


class Shard(Object, frozen=True):
    """One shard."""

    status: ShardStatus = ShardStatus()
