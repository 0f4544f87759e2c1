"""A gang as its object or its pods state it, before its pods are counted: what every kind makes of its own fields."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from maar.kube.kinds.elastic import ElasticSpec
from maar.kube.wire.base import Int, LabelSelector, Object, OwnerReference, Quantities, Wire
from maar.model.jobs import Closeness, Phase, SubgroupPolicy
from maar.model.resources import QuantityError, counted_as, units

LONGEST_NAME = 253
"""Characters of a name in Kubernetes; an annotation can have more."""


class SubgroupSpec(msgspec.Struct, frozen=True):
    """A policy, and the pods that are in its subgroups: selected by labels, and divided by the values of some."""

    policy: SubgroupPolicy
    selector: LabelSelector | None = None
    """`None`: all pods."""
    keys: tuple[str, ...] = ()


class GangSpec(msgspec.Struct, kw_only=True):
    """What is stated about one gang. What it leaves open (queue, priority, closeness) its pods may state."""

    namespace: str
    name: str
    part: str = ""
    """The part of a job that starts in several steps."""
    minimum: int | None = 1
    """`None`: as many as it has pods."""
    left: int | None = None
    """Pods that its owner still wants besides those that have succeeded, if it says so."""
    whole: bool = False
    """The minimum is the whole gang: never less than its pods."""
    role_min: dict[str, int] = {}
    queue: str = ""
    priority_class: str = ""
    priority: int | None = None
    ranked: bool = False
    """Its object ranks the gang: without a class it has the default priority, or that of its lowest pod if smaller."""
    min_resources: dict[str, int] | None = None
    quota_needs: dict[str, int] = {}
    closeness: Closeness | None = None
    subgroups: tuple[SubgroupSpec, ...] = ()
    phase: Phase = Phase.INQUEUE
    created: float | None = None
    uid: str = ""
    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    gang: bool = True
    """False: its pods are gangs of one."""
    stands: bool = False
    """A job even without pods."""
    broken: str = ""
    doubt: str = ""
    """What its owner probably did not mean; it counts as it is read."""
    owners: tuple[OwnerReference, ...] = ()
    """The owners of the object that states it."""
    elastic: ElasticSpec | None = None
    """What its elastic job states."""


class NetworkTopology(Wire, frozen=True):
    """Volcano's statement of how far apart on the network the pods of a gang may be."""

    mode: str = ""
    highest_tier_allowed: Int | None = None
    highest_tier_name: str = ""


def from_object(of: Object) -> GangSpec:
    """A gang with what every object has."""
    meta = of.metadata
    return GangSpec(
        namespace=of.namespace,
        name=of.name,
        created=None if meta.creation_timestamp is None else meta.creation_timestamp.timestamp(),
        uid=meta.uid,
        annotations=meta.annotations,
        labels=meta.labels,
        owners=meta.owner_references,
    )


def set_minimum(gang: GangSpec, field: str, value: int, least: int = 1) -> None:
    """The minimum that the object states, at least `least`; a negative one makes the job invalid."""
    if value < 0:
        broken(gang, field, f"expected a number of at least 0, got `{value}`")
    gang.minimum = max(value, least) if value >= 0 else 1


QUOTA_ONLY = ("requests.", "limits.", "count/")
"""Beginnings of names that mean something to a ResourceQuota only."""


def set_min_resources(gang: GangSpec, field: str, quantities: Quantities | None) -> None:
    """What the gang needs before its pods exist; a negative or unreadable amount makes the job invalid.

    Volcano's controller also states what quotas count (`limits.cpu`, `count/pods`), which no node has.
    """
    if quantities is None:
        return
    gang.min_resources, gang.quota_needs = {}, {}
    for name, value in quantities.items():
        try:
            amount = units(counted_as(name), value, up=True)
        except QuantityError as error:
            broken(gang, f"{field}.{name}", str(error))
            continue
        if amount < 0:
            broken(gang, f"{field}.{name}", f"expected an amount of at least 0, got `{value}`")
        needs = gang.quota_needs if name.startswith(QUOTA_ONLY) else gang.min_resources
        needs[name] = max(amount, 0)


def closeness(gang: GangSpec, field: str, wire: NetworkTopology | None) -> Closeness | None:
    """Volcano's networkTopology; an invalid one makes the job invalid. `hard` without a tier asks for nothing."""
    if wire is None:
        return None
    if wire.mode not in ("", "hard", "soft"):
        broken(gang, f"{field}.mode", f"expected `hard` or `soft`, got `{wire.mode}`")
        return None
    hard = wire.mode != "soft"
    if hard and wire.highest_tier_allowed is None and not wire.highest_tier_name:
        return None
    return Closeness(tier=wire.highest_tier_allowed, tier_name=wire.highest_tier_name, hard=hard)


def broken(gang: GangSpec, field: str, problem: str) -> None:
    gang.broken = gang.broken or f"{field}: {problem}"


def does_not_exist(namespace: str, name: str) -> GangSpec:
    """A gang whose PodGroup does not exist: its pods wait for it; running pods are a gang as they are."""
    broken = f"PodGroup `{namespace}/{name[:LONGEST_NAME]}` does not exist"
    return GangSpec(namespace=namespace, name=name, minimum=None, broken=broken)
