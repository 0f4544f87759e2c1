"""What Maar remembers about the cluster as a whole: the ConfigMap `maar-state` in Maar's own namespace.

It protects jobs from the jobs of others, so it is where tenants cannot write: the election, jobs that lost one, and
when the sizes of each pool last changed. Everything else that Maar remembers is on the object it belongs to. Each
scheduler name has its own entry in `data`, so that several schedulers can share the namespace.
"""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from maar.kube.wire.cluster import ConfigMap
from maar.kube.wire.errors import FieldError
from maar.model.plan import Elect, Expired

MOST_BYTES = 45_000
"""The largest entry that is read and written, so that two entries stay below 100 kB. Usually it has less than 1 kB."""
MOST_EXPIRED = 50
"""How many lost elections are kept, the latest; tuned by hand."""
MOST_POOLS = 50
"""How many pools are kept if all of them are too many; tuned by hand."""
DEFAULT_ENTRY = "maar"


class State(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is remembered."""

    elect: Elect | None = None
    expired: tuple[Expired, ...] = ()
    resized: dict[str, float] = {}


def entry_of(scheduler_names: frozenset[str]) -> str:
    """The key in `data` of a Maar with these scheduler names."""
    return re.sub(r"[^-._a-zA-Z0-9]", "_", ".".join(sorted(scheduler_names)))[:253] or DEFAULT_ENTRY


def read_state(item: ConfigMap, scheduler_names: frozenset[str] | None) -> State:
    """The state in a ConfigMap; a `FieldError` if it is malformed. Without names, the only entry or the default one."""
    if scheduler_names is not None:
        entry = entry_of(scheduler_names)
    else:
        entry = next(iter(item.data)) if len(item.data) == 1 else DEFAULT_ENTRY
    text = item.data.get(entry, "")
    if not text:
        return State()
    try:
        if len(text.encode()) > MOST_BYTES:
            raise ValueError(f"expected at most {MOST_BYTES} bytes, got {len(text.encode())}")
        return msgspec.json.decode(text, type=State)
    except (ValueError, RecursionError) as error:  # msgspec raises subclasses of ValueError
        raise FieldError(f"data.{entry}", f"malformed state: {error}") from None


def write_state(state: State) -> str:
    """The text of a state; if it is too long, the oldest lost elections and pools are left out, then everything."""
    latest = sorted(state.expired, key=lambda e: (-e.at, e.job))[:MOST_EXPIRED]
    state = replace(state, expired=tuple(sorted(latest, key=lambda e: e.job)))
    pools = sorted(state.resized, key=lambda pool: (-state.resized[pool], pool))
    shorter = (replace(state, expired=(), resized={p: state.resized[p] for p in pools[:n]}) for n in (MOST_POOLS, 0))
    for made in (state, *shorter, State()):
        text = msgspec.json.encode(made, order="sorted").decode()
        if len(text.encode()) <= MOST_BYTES:
            break
    return text
