"""Facts of the core in tests: rounds of evictions and lost elections."""

from __future__ import annotations

from maar.model.facts import About, Fact, Lost, from_before
from maar.model.plan import Plan
from maar.model.snapshot import Cluster


def facts(*lost: Lost, rounds: dict[str, float] | None = None) -> tuple[Fact, ...]:
    """What a cluster remembers of lost elections and of the rounds of plugins."""
    return from_before(lost, rounds or {})


def rounds_of(plan: Plan | Cluster) -> dict[str, float]:
    """When each plugin last evicted a round of pods."""
    return {fact.plugin: fact.value["at"] for fact in plan.facts if fact.name == "round"}


def lost_of(plan: Plan | Cluster) -> tuple[Lost, ...]:
    """The jobs that lost their election."""
    found = (f for f in plan.facts if (f.plugin, f.name, f.about) == ("elect", "lost", About.JOB))
    return tuple(Lost(fact.key, fact.value["at"], fact.uid) for fact in found)
