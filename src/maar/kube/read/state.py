"""What Maar remembers about the cluster as a whole: the ConfigMap `maar-state` in Maar's own namespace.

It protects jobs from the jobs of others, so it is where tenants cannot write: the election, jobs that lost one,
when the sizes of each pool last changed, and when each plugin that evicts in rounds last did so. Everything else that
Maar remembers is on the object it belongs to. Each scheduler name has its own entry in `data`, so that several
schedulers can share the namespace.
"""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from maar.kube.wire.cluster import ConfigMap
from maar.kube.wire.errors import FieldError
from maar.model.plan import Elect, Expired

MOST_IN_ALL = 99_000
"""Bytes of all entries together, so that the ConfigMap stays below 100 kB."""
MOST_BYTES = 45_000
"""The largest entry that is read and written, so that two schedulers have room. Usually it has less than 1 kB."""
LEAST_BYTES = 2_000
"""What an entry may have whatever others wrote: an election, and a few pools."""
MOST_EXPIRED = 50
"""How many lost elections are kept, the latest; tuned by hand."""
MOST_POOLS = 50
"""How many pools are kept if all of them are too many; tuned by hand."""
MOST_ROUNDS = 20
"""How many plugins that evict in rounds are kept; tuned by hand."""
DEFAULT_ENTRY = "maar"


class State(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is remembered."""

    elect: Elect | None = None
    expired: tuple[Expired, ...] = ()
    resized: dict[str, float] = {}
    rounds: dict[str, float] = {}


def entry_of(scheduler_names: frozenset[str]) -> str:
    """The key in `data` of a Maar with these scheduler names."""
    return re.sub(r"[^-._a-zA-Z0-9]", "_", ".".join(sorted(scheduler_names)))[:253] or DEFAULT_ENTRY


def entry_of_shard(entry: str, shard: int) -> str:
    """The key of one of several shards. The first one goes on with the entry of the Maar that led alone."""
    return f"{entry}.shard-{shard}" if shard else entry


def read_state(item: ConfigMap, scheduler_names: frozenset[str] | None) -> State:
    """The state in a ConfigMap; a `FieldError` if it is malformed. Without names, the only entry or the default one.

    Each of several shards has an entry of its own. Shards learn by wants which election counts (`maar.shards.election`)
    and give up the others, so there is more than one for a moment only. Whoever just looks sees the earliest.
    """
    if scheduler_names is not None:
        entry = entry_of(scheduler_names)
    else:
        entry = next(iter(item.data)) if len(item.data) == 1 else DEFAULT_ENTRY
    state = State()
    for key in shard_entries(item, entry):
        state = _together(state, read_entry(item, key))
    return state


def shard_entries(item: ConfigMap, entry: str) -> list[str]:
    """The keys of all shards of a Maar."""
    prefix = entry_of_shard(entry, 1)[:-1]
    shards = (key for key in item.data if key.startswith(prefix) and key[len(prefix) :].isdecimal())
    return [entry, *sorted(shards)]


def _together(one: State, other: State) -> State:
    """What two shards remember."""
    elects = [elect for elect in (one.elect, other.elect) if elect is not None]
    expired = {e.job: e for e in sorted((*one.expired, *other.expired), key=lambda e: e.at)}
    return State(
        min(elects, key=lambda elect: (elect.since, elect.job), default=None),
        tuple(expired[job] for job in sorted(expired)),
        _latest(one.resized, other.resized),
        _latest(one.rounds, other.rounds),
    )


def _latest(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in one.keys() | other.keys()}


def read_entry(item: ConfigMap, entry: str) -> State:
    """The state in one entry; a `FieldError` if it is malformed."""
    text = item.data.get(entry, "")
    if not text:
        return State()
    try:
        if len(text.encode()) > MOST_BYTES:
            raise ValueError(f"expected at most {MOST_BYTES} bytes, got {len(text.encode())}")
        return msgspec.json.decode(text, type=State)
    except (ValueError, RecursionError) as error:  # msgspec raises subclasses of ValueError
        raise FieldError(f"data.{entry}", f"malformed state: {error}") from None


def write_state(state: State, others: int = 0) -> str:
    """The text of a state, beside `others` bytes of other schedulers.

    If it is too long, the oldest lost elections and pools are left out, then the election, then everything.
    """
    most = max(min(MOST_BYTES, MOST_IN_ALL - others), LEAST_BYTES)
    latest = sorted(state.expired, key=lambda e: (-e.at, e.job))[:MOST_EXPIRED]
    state = replace(state, expired=tuple(sorted(latest, key=lambda e: e.job)))
    pools = sorted(state.resized, key=lambda pool: (-state.resized[pool], pool))
    few = {p: state.resized[p] for p in pools[:MOST_POOLS]}
    state = replace(state, rounds=dict(sorted(state.rounds.items())[:MOST_ROUNDS]))
    shorter = (replace(state, expired=(), resized=kept) for kept in (few, {}))
    for made in (state, *shorter, State(resized=few, rounds=state.rounds), State(rounds=state.rounds), State()):
        text = msgspec.json.encode(made, order="sorted").decode()
        if len(text.encode()) <= most:
            break
    return text


def others_in(item: ConfigMap | None, entry: str) -> int:
    """The bytes of all other entries."""
    data = {} if item is None else item.data
    return sum(len(key.encode()) + len(text.encode()) for key, text in data.items() if key != entry)
