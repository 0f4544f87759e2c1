"""Facts: what one cycle tells the next, in words that only its owner understands.

A plugin declares a small struct (`maar.session.memory`). The plan carries its values as plain data, the storage keeps
them on the object that they are about (`maar.kube.read.facts`), and the snapshot brings them back. Nobody in between
knows what they mean. A snapshot may have a fact several times, from several writers: the session merges them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec


class About(enum.StrEnum):
    """What a fact is about, and so where it is stored."""

    CLUSTER = "cluster"
    QUEUE = "queue"
    JOB = "job"
    """Stored with the facts about the cluster: tenants can write the objects of their jobs."""
    NODE = "node"


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """One remembered value."""

    plugin: str
    """Its owner; nobody else reads it."""
    name: str
    at: float
    """When it last changed. If there are too many facts, the oldest are forgotten first."""
    value: dict[str, Any]
    about: About = About.CLUSTER
    key: str = ""
    """The job, queue or node."""
    uid: str = ""
    """The uid of the job: a later job of the same name has none of its facts."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        return self.about, self.key, self.plugin, self.name


def joined(before: Iterable[Fact], after: Iterable[Fact], is_new: Callable[[Fact], bool]) -> tuple[Fact, ...]:
    """The later facts where they count, and the earlier ones elsewhere."""
    facts = (*(f for f in before if not is_new(f)), *(f for f in after if is_new(f)))
    return tuple(sorted(facts, key=lambda fact: fact.identity))


class Lost(msgspec.Struct, frozen=True):
    """A lost election, as versions before facts stored it."""

    job: str
    at: float
    uid: str = ""


def from_before(expired: Iterable[Lost], rounds: Mapping[str, float]) -> tuple[Fact, ...]:
    """Facts from state and recordings of versions that knew two of them, each by its own key."""
    lost = (Fact("elect", "lost", e.at, {"at": e.at}, About.JOB, e.job, e.uid) for e in expired)
    return (*(Fact(plugin, "round", at, {"at": at}) for plugin, at in sorted(rounds.items())), *lost)
