"""Facts as text: what plugins remember, in the ConfigMap `maar-state` and in an annotation of queues and nodes.

All of these are objects that tenants cannot write. Text from another version is read as far as it is understood: a
fact that does not decode is left out. Text that is written has a limit. If there is more, facts about the cluster are
kept first, then the ones that changed last; the others are forgotten when the scheduler restarts.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from maar.kube.wire.annotations import FACTS
from maar.kube.wire.base import Metadata
from maar.kube.wire.cluster import Queue
from maar.model.facts import About, Fact

MOST_OF_ONE = 2_000
"""Bytes of the largest fact that is written; tuned by hand."""
MOST_ON_AN_OBJECT = 4_000
"""Bytes of all facts on one queue or node; tuned by hand. All annotations of an object may have 256 kB."""
NO_FACTS = "[]"


class FactsText(NamedTuple):
    """The text of facts, and how many did not fit."""

    text: str
    left_out: int


def write_facts(facts: Iterable[Fact], most: int = MOST_ON_AN_OBJECT) -> FactsText:
    """The facts that fit into `most` bytes."""
    kept, size, left_out = list[tuple[tuple[str, ...], bytes]](), len(NO_FACTS), 0
    for fact in sorted(facts, key=lambda f: (f.about is not About.CLUSTER, -f.at, f.identity)):
        data = msgspec.json.encode(fact, order="sorted")
        if len(data) > MOST_OF_ONE or size + len(data) + 1 > most:
            left_out += 1
            continue
        kept.append((fact.identity, data))
        size += len(data) + 1
    return FactsText(f"[{b','.join(data for _, data in sorted(kept)).decode()}]", left_out)


@lru_cache(maxsize=4096)
def read_facts(text: str) -> tuple[Fact, ...]:
    """The facts in a text; raises a `ValueError` if it is not a list."""
    found = []
    for raw in msgspec.json.decode(text, type=list[msgspec.Raw]):
        try:
            found.append(msgspec.json.decode(raw, type=Fact))
        except (ValueError, RecursionError):
            continue
    return tuple(found)


def write_on_object(facts: Iterable[Fact]) -> FactsText:
    """The annotation of a queue or node with its facts."""
    return write_facts(replace(fact, about=About.CLUSTER, key="") for fact in facts)


def without_facts(queue: Queue) -> Queue:
    """A queue without its facts, which only Maar writes."""
    notes = {key: text for key, text in queue.metadata.annotations.items() if key != FACTS}
    return replace(queue, metadata=replace(queue.metadata, annotations=notes))


def facts_on(metadata: Metadata, about: About) -> tuple[Fact, ...]:
    """The facts in the annotation of a queue or node; none if it is malformed."""
    text = metadata.annotations.get(FACTS, "")
    if not text or len(text) > MOST_ON_AN_OBJECT:
        return ()
    try:
        return tuple(replace(fact, about=about, key=metadata.name, uid="") for fact in read_facts(text))
    except (ValueError, RecursionError):
        return ()
