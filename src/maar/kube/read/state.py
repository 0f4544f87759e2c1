"""What Maar remembers about the cluster as a whole: the ConfigMap `maar-state` in Maar's own namespace.

It protects jobs from the jobs of others, so it is where tenants cannot write: the election, when the sizes of each pool
last changed, and the facts about the cluster and about jobs. Everything else that Maar remembers is on the object it
belongs to. Each scheduler name has its own entry in `data`, so that several schedulers can share the namespace, and
beside it one with its facts: the version before facts then goes on with the rest after a rollback.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from maar.kube.read.facts import NO_FACTS, read_facts, write_facts
from maar.kube.wire.cluster import ConfigMap
from maar.kube.wire.errors import FieldError
from maar.model.facts import Fact, Lost, from_before
from maar.model.plan import Elect

MOST_IN_ALL = 99_000
"""Bytes of all entries together, so that the ConfigMap stays below 100 kB."""
MOST_BYTES = 45_000
"""What one scheduler writes at most, so that two have room. Usually it is less than 1 kB; 45 kB are about 250 facts."""
LEAST_BYTES = 2_000
"""What an entry may have whatever others wrote: an election, and a few pools."""
MOST_POOLS = 50
"""How many pools are kept if all of them are too many; tuned by hand."""
DEFAULT_ENTRY = "maar"
OF_FACTS = "..facts"
"""What follows an entry in the key of its facts. No name of a scheduler has two points in a row."""


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered."""

    elect: Elect | None = None
    resized: dict[str, float] = {}
    facts: tuple[Fact, ...] = ()
    """About the cluster and about jobs; in an entry of their own."""


class Before(msgspec.Struct, frozen=True):
    """What versions before facts stored beside it."""

    expired: tuple[Lost, ...] = ()
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
        entries = {key.removesuffix(OF_FACTS) for key in item.data}
        entry = entries.pop() if len(entries) == 1 else DEFAULT_ENTRY
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
    """What two shards remember. A session merges facts of one identity."""
    elects = [elect for elect in (one.elect, other.elect) if elect is not None]
    elect = min(elects, key=lambda elect: (elect.since, elect.job), default=None)
    return State(elect, latest(one.resized, other.resized), (*one.facts, *other.facts))


def latest(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """The later of two times for each name."""
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in one.keys() | other.keys()}


def read_entry(item: ConfigMap, entry: str) -> State:
    """The state in one entry; a `FieldError` if it is malformed."""
    text, facts = item.data.get(entry, ""), item.data.get(entry + OF_FACTS, "")
    try:
        for data in (text, facts):
            if len(data.encode()) > MOST_BYTES:
                raise ValueError(f"expected at most {MOST_BYTES} bytes, got {len(data.encode())}")
        state = msgspec.json.decode(text or "{}", type=State)
        before = msgspec.json.decode(text or "{}", type=Before)
        found = (*from_before(before.expired, before.rounds), *read_facts(facts or NO_FACTS))
        return replace(state, facts=found)
    except (ValueError, RecursionError) as error:  # msgspec raises subclasses of ValueError
        raise FieldError(f"data.{entry}", f"malformed state: {error}") from None


def write_state(state: State, others: int = 0) -> str:
    """The text of a state without its facts, beside `others` bytes of other schedulers.

    If it is too long, the oldest pools are left out, then the election, then everything.
    """
    state = replace(state, facts=())
    most = max(min(MOST_BYTES, MOST_IN_ALL - others), LEAST_BYTES)
    pools = sorted(state.resized, key=lambda pool: (-state.resized[pool], pool))
    few = {p: state.resized[p] for p in pools[:MOST_POOLS]}
    for made in (state, replace(state, resized=few), replace(state, resized={}), State(resized=few), State()):
        text = msgspec.json.encode(made, order="sorted").decode()
        if len(text.encode()) <= most:
            break
    return text


def entries_of(entry: str, state: State, others: int = 0) -> tuple[dict[str, str], int]:
    """The entries with a state and its facts, and how many facts did not fit."""
    text = write_state(state, others)
    facts = write_facts(state.facts, min(MOST_BYTES, MOST_IN_ALL - others) - len(text.encode()))
    return {entry: text, entry + OF_FACTS: facts.text}, facts.left_out


def others_in(item: ConfigMap | None, entry: str) -> int:
    """The bytes of all entries of others."""
    data = {} if item is None else item.data
    return sum(len(k.encode()) + len(text.encode()) for k, text in data.items() if k.removesuffix(OF_FACTS) != entry)
