"""Thin structs of Maar's own kinds ShardMap and Shard (docs/shards.md)."""

from __future__ import annotations

from msgspec import field

from maar.kube.wire.base import Int, Long, Object, Time, Wire


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


class AskedVictim(Wire, frozen=True, omit_defaults=True):
    """A pod that another shard is asked to evict."""

    pod: str
    reason: str = ""
    cause: str = ""
    budgets_apply: bool = True
    grace: Long | None = None


class Want(Wire, frozen=True, omit_defaults=True):
    """The nodes that a waiting job needs, of which other shards own some."""

    job: str
    uid: str
    created: Time | None = None
    deadline: Time | None = None
    priority: Int = 0
    asks: bool = False
    nodes: tuple[str, ...] = ()
    victims: tuple[AskedVictim, ...] = ()
    elected: Time | None = None


class ShardSpec(Wire, frozen=True, omit_defaults=True):
    """What the waiting jobs of a shard want from others."""

    wants: tuple[Want, ...] = ()


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

    spec: ShardSpec = ShardSpec()
    status: ShardStatus = ShardStatus()
