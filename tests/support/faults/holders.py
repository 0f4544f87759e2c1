"""Which process holds which shard, when a shard was last disturbed by a fault, and how long take-overs last. Not Maar's
reader.

A gang may be in part for as long as a take-over lasts. A fault that hits the shard of its queue begins another one, and
so does any change of the holder: on a busy machine a process may lose its lease without a fault. A take-over lasts from
the last renewal of the old holder until a new one has decided: then it writes its epoch into the Shard.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.support.faults.writes import Json

SHARD_MAPS, SHARDS = "maar.dev/shardmaps", "maar.dev/shards"
LEASE = "maar"
EPOCH = "maar.dev/epoch"


class Open(NamedTuple):
    """A take-over that is not complete."""

    since: float
    epoch: int


class Holders:
    """The shards of one cluster, from their Leases and the ShardMap. Without a map there is one shard, number 0."""

    def __init__(self, objects: Mapping[str, Mapping[str, Json]]) -> None:
        self._objects = objects
        self._disturbed: dict[int, float] = {}
        self._all = -math.inf
        self.changes = 0
        """How often the holder of a shard has changed; to release one counts too."""
        self.take_overs: list[float] = []
        """How long each complete take-over lasted, in seconds."""
        self._open: dict[int, Open] = {}
        self._renewed: dict[int, float] = {}

    def by_shard(self) -> dict[int, str]:
        """The identity of the holder of each shard. It may be dead."""
        found = {_shard(key): _holder(lease) for key, lease in self._objects["leases"].items()}
        return {shard: holder for shard, holder in sorted(found.items()) if shard >= 0 and holder}

    def lease(self, key: str, before: Json | None, after: Json | None, now: float) -> None:
        """A Lease was written."""
        if _shard(key) < 0:
            return
        if _holder(before) != _holder(after):
            self.changes += 1
            self.disturb(now, [_shard(key)])
            self._changed(_shard(key), before, after, now)
        if before is None or after is None or before.get("spec") != after.get("spec"):
            self._renewed[_shard(key)] = now  # not if somebody else only writes an annotation

    def _changed(self, shard: int, before: Json | None, after: Json | None, now: float) -> None:
        """The holder of a shard has changed. If the next one fails too, it is still the same take-over."""
        if before is None or after is None or not _holder(after):
            return
        since = self._open[shard].since if shard in self._open else self._renewed.get(shard, now)
        self._open[shard] = Open(since, int((after["metadata"].get("annotations") or {}).get(EPOCH, 0)))

    def shard(self, key: str, after: Json | None, now: float) -> None:
        """A Shard was written: its holder has decided."""
        number = int(key.rpartition("-")[2])
        epoch = ((after or {}).get("status") or {}).get("epoch", 0)
        if number in self._open and epoch >= self._open[number].epoch:
            self.take_overs.append(now - self._open.pop(number).since)

    def longest_take_over(self, now: float) -> float:
        """The longest take-over until now, also of those that are not complete."""
        return max((*self.take_overs, *(now - begun.since for begun in self._open.values())), default=0.0)

    def of_process(self, pid: int) -> list[int]:
        """The shards that a process holds."""
        return [shard for shard, holder in self.by_shard().items() if holder.endswith(f"_{pid}")]

    def wanted(self) -> int:
        """How many shards the map wants; 1 without a map."""
        return int((self._map() or {"shards": 1})["shards"])

    def members(self) -> list[int]:
        """The shards that need a holder: the wanted ones, and others that still own something."""
        spec = self._map() or {}
        owners = {*spec.get("slots", ()), *_values(spec, "nodes"), *_values(spec, "queues")}
        return sorted({*range(self.wanted()), *owners})

    def shard_of(self, queue: str) -> int:
        """The shard that decides for a queue."""
        spec = self._map()
        if spec is None:
            return 0
        named = (spec.get("queues") or {}).get(queue)
        return int(
            spec["slots"][hashlib.blake2b(queue.encode(), digest_size=1).digest()[0]] if named is None else named
        )

    def disturb(self, now: float, shards: Iterable[int] | None = None) -> None:
        """A fault hits these shards, or all of them."""
        if shards is None:
            self._all = now
        for shard in shards or ():
            self._disturbed[shard] = now

    def disturbed(self, queue: str) -> float:
        """When the shard of a queue was last hit by a fault."""
        return max(self._all, self._disturbed.get(self.shard_of(queue), -math.inf))

    def _map(self) -> Json | None:
        found = self._objects[SHARD_MAPS].get("maar")
        return None if found is None else found["spec"]


def moves(before: Json | None, after: Json | None) -> int:
    """How many slots and entries for nodes and queues differ between two versions of the map."""
    if before is None or after is None:
        return 0
    old, new = before["spec"], after["spec"]
    slots: int = sum(was != now for was, now in zip(old["slots"], new["slots"], strict=True))
    entries = [((old.get(field) or {}).items(), (new.get(field) or {}).items()) for field in ("nodes", "queues")]
    names = [len({name for name, _ in was ^ now}) for was, now in entries]
    return slots + sum(names)


def _shard(key: str) -> int:
    """The shard of a Lease; -1 for other Leases."""
    name = key.rpartition("/")[2]
    number = "0" if name == LEASE else name.removeprefix(f"{LEASE}-shard-")
    return int(number) if number.isdecimal() else -1


def _holder(lease: Json | None) -> str:
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


def _values(spec: Json, field: str) -> Iterable[int]:
    return (spec.get(field) or {}).values()
