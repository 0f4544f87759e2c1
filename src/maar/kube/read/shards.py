"""ShardMap and Shards between their objects and `maar.shards`.

A map that is wrong in any part is not used at all: with half a map, a node could have two owners. A want that is wrong
is left out: its shard writes all of its wants again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from maar.kube.wire.errors import FieldError
from maar.kube.wire.shards import AskedVictim, Shard, ShardMapSpec
from maar.kube.wire.shards import ShardMap as WireMap
from maar.kube.wire.shards import Want as WireWant
from maar.model.plan import Cause, Evict
from maar.shards.map import ShardMap, problems
from maar.shards.slots import slot_of
from maar.shards.wants import Want

MAP_NAME = "maar"
SHARD_PREFIX = "shard-"
MOST_BYTES = 1_300_000
"""Bytes of a map. etcd takes 1.5 MiB by default for an object with all its metadata."""
MOST_WANTS = 256
"""Wants of one shard, the first in the order: others wait until these are served."""
MOST_WANTED = 20_000
"""Nodes and victims in all wants of one shard."""
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


def wants_of(item: Shard) -> tuple[Want, ...]:
    """The wants in a Shard, without those that cannot be followed."""
    shard = shard_number(item.name)
    if shard is None:
        return ()
    return tuple(
        Want(
            shard,
            want.job,
            want.uid,
            want.priority,
            want.created.timestamp(),
            want.nodes,
            want.deadline.timestamp(),
            want.asks,
            tuple(Evict(v.pod, want.job, v.reason, _cause(v.cause), v.budgets_apply, v.grace) for v in want.victims),
            None if want.elected is None else want.elected.timestamp(),
        )
        for want in item.spec.wants
        if want.created is not None and want.deadline is not None
    )


def wire_wants(wants: Iterable[Want]) -> tuple[WireWant, ...]:
    """Wants of one shard, as they are written: as many as there is room for, the first ones."""
    made, room = [], MOST_WANTED
    for want in sorted(wants, key=lambda want: (want.elected is None, want.place))[:MOST_WANTS]:
        room -= len(want.nodes) + len(want.victims)
        if room < 0:
            break
        victims = (AskedVictim(e.task, e.reason, e.cause.value, e.budgets_apply, e.grace) for e in want.victims)
        created, deadline = _time(want.created), _time(want.deadline)
        elected = None if want.elected is None else _time(want.elected)
        made.append(
            WireWant(
                want.job, want.uid, created, deadline, want.priority, want.asks, want.nodes, tuple(victims), elected
            )
        )
    return tuple(made)


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _cause(text: str) -> Cause:
    try:
        return Cause(text)
    except ValueError:
        return Cause.UNKNOWN


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
