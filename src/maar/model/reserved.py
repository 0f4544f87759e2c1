"""Reserved room: for pods of a job that do not exist yet, until a time. A fact of the core about a job.

The room of elastic jobs is another thing: the plan that grows a job states it, and the job's own object stores it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from maar.model.facts import About, Fact
from maar.model.shapes import Shape

OWNER, NAME = "maar", "reserved"


class ReservedPlace(msgspec.Struct, frozen=True):
    """Room on one node for some equal pods."""

    node: str
    count: int
    requests: tuple[tuple[str, int], ...]

    @property
    def shape(self) -> Shape:
        """The pods in numbers; what else they need is known when they exist."""
        return Shape(requests=self.requests)


class Reserved(msgspec.Struct, frozen=True):
    """All room that is reserved for a job."""

    until: float
    places: tuple[ReservedPlace, ...] = ()


def longer(one: Reserved, other: Reserved) -> Reserved:
    """The reservation that ends later."""
    return max(one, other, key=lambda reserved: (reserved.until, len(reserved.places), repr(reserved)))


def reserved_in(facts: Iterable[Fact]) -> dict[tuple[str, str], Reserved]:
    """The reserved room by key and uid of the job, which may be gone."""
    found: dict[tuple[str, str], Reserved] = {}
    for fact in facts:
        if (fact.plugin, fact.name, fact.about) == (OWNER, NAME, About.JOB):
            try:
                made = msgspec.convert(fact.value, Reserved)
            except msgspec.ValidationError:
                continue
            found[fact.key, fact.uid] = longer(found.get((fact.key, fact.uid), made), made)
    return found


def shapes_in(facts: Iterable[Fact]) -> list[Shape]:
    """The shapes of the pods that room is reserved for."""
    found = reserved_in(facts)
    return [place.shape for job in sorted(found) for place in found[job].places]
