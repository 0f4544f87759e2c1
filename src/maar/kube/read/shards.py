"""The ShardMap between its object and `maar.shards.map`.

A map that is wrong in any part is not used at all: with half a map, a node could have two owners.
"""

from __future__ import annotations

import msgspec

from maar.kube.wire.errors import FieldError
from maar.kube.wire.shards import ShardMap as WireMap
from maar.kube.wire.shards import ShardMapSpec
from maar.shards.map import ShardMap, problems
from maar.shards.slots import slot_of

MAP_NAME = "maar"
SHARD_PREFIX = "shard-"
MOST_BYTES = 1_300_000
"""Bytes of a map. etcd takes 1.5 MiB by default for an object with all its metadata."""
DIGITS = 2
"""Digits of the number of a shard."""


class BrokenMap(ValueError):
    """A ShardMap that cannot be used, with what is wrong with it."""

    def __init__(self, *problems: str) -> None:
        super().__init__(f"ShardMap `{MAP_NAME}`: {'; '.join(problems)}")
        self.problems = problems


def shard_map(wire: WireMap) -> ShardMap:
    """The map; `BrokenMap` if anything in it is wrong."""
    spec = wire.spec
    try:
        epochs = {_number(shard, "epochs"): epoch for shard, epoch in spec.epochs.items()}
        holders = {_number(shard, "holders"): holder for shard, holder in spec.holders.items()}
    except FieldError as error:
        raise BrokenMap(str(error)) from None
    found = ShardMap(spec.shards, spec.slots, spec.nodes, spec.queues, epochs, holders)
    if wrong := problems(found):
        raise BrokenMap(*(f"spec.{problem}" for problem in wrong))
    return msgspec.structs.replace(
        found, nodes=_needed(found.nodes, found.slots), queues=_needed(found.queues, found.slots)
    )


def spec_of(made: ShardMap) -> ShardMapSpec:
    """What is written for a map; `BrokenMap` if it is wrong or too large."""
    if wrong := problems(made):
        raise BrokenMap(*(f"spec.{problem}" for problem in wrong))
    spec = ShardMapSpec(
        made.shards,
        made.slots,
        dict(sorted(made.nodes.items())),
        dict(sorted(made.queues.items())),
        {str(shard): epoch for shard, epoch in sorted(made.epochs.items())},
        {str(shard): holder for shard, holder in sorted(made.holders.items())},
    )
    if (size := len(msgspec.json.encode(spec))) > MOST_BYTES:
        raise BrokenMap(f"{size} bytes, at most {MOST_BYTES} fit: too many nodes are lent")
    return spec


def shard_name(shard: int) -> str:
    """The name of the Shard of a shard."""
    return f"{SHARD_PREFIX}{shard}"


def shard_number(name: str) -> int | None:
    """The shard that a Shard is about; `None` for any other name."""
    text = name.removeprefix(SHARD_PREFIX)
    return int(text) if name.startswith(SHARD_PREFIX) and _is_number(text) else None


def _needed(entries: dict[str, int], slots: tuple[int, ...]) -> dict[str, int]:
    """Without entries that say what the slot says."""
    return {name: shard for name, shard in entries.items() if shard != slots[slot_of(name)]}


def _number(text: str, field: str) -> int:
    if not _is_number(text):
        raise FieldError(f"spec.{field}", f"expected the number of a shard, got `{text[:20]}`")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS and str(int(text)) == text
