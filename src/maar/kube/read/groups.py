"""A gang as its object or its rule says it, before its pods are counted: what every dialect makes of its own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from maar.kube.kinds import may_own
from maar.kube.kinds.reading import Reading
from maar.kube.wire.base import Object, Quantities
from maar.kube.wire.groups import NetworkTopology
from maar.kube.wire.pods import Pod
from maar.model.jobs import Closeness, Phase
from maar.model.resources import QuantityError, units


class Group(msgspec.Struct, kw_only=True):
    """One gang. What it does not say (queue, priority, closeness) its pods may."""

    namespace: str
    name: str
    minimum: int | None = 1
    """`None`: as many as it has pods."""
    whole: bool = False
    """Its minimum is all of it: never less than the pods that are there."""
    role_min: dict[str, int] = {}
    queue: str = ""
    priority_class: str = ""
    priority: int | None = None
    min_resources: dict[str, int] | None = None
    closeness: Closeness | None = None
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
    owner: str = ""
    """The job that made it, where that is of a kind that can be elastic."""
    reading: Reading | None = None
    """What its elastic job says."""


class Dialect(Protocol):
    """One way to say that pods are a gang."""

    @property
    def name(self) -> str:
        """Tells two gangs of one name apart."""

    def group_of(self, pod: Pod) -> str:
        """The name of a pod's group; empty where the pod does not speak this dialect."""

    def groups(self) -> Iterable[Group]:
        """Those that have an object."""

    def missing(self, namespace: str, name: str, pods: list[Pod]) -> Group:
        """A group that pods name and that has no object."""


def from_object(of: Object) -> Group:
    """A group with what every object has."""
    meta = of.metadata
    return Group(
        namespace=of.namespace,
        name=of.name,
        created=None if meta.creation_timestamp is None else meta.creation_timestamp.timestamp(),
        uid=meta.uid,
        annotations=meta.annotations,
        labels=meta.labels,
        owner=next((owner.name for owner in meta.owner_references if may_own(owner)), ""),
    )


def set_minimum(group: Group, field: str, value: int) -> None:
    """The minimum as its object says it; a negative one breaks the job."""
    if value < 0:
        broken(group, field, f"expected a number of at least 0, got `{value}`")
    group.minimum = max(value, 1)


def set_min_resources(group: Group, field: str, quantities: Quantities | None) -> None:
    """What the gang needs before its pods exist; a negative or unreadable amount breaks the job."""
    if quantities is None:
        return
    group.min_resources = {}
    for name, value in quantities.items():
        try:
            amount = units(name, value, up=True)
        except QuantityError as error:
            broken(group, f"{field}.{name}", str(error))
            continue
        if amount < 0:
            broken(group, f"{field}.{name}", f"expected an amount of at least 0, got `{value}`")
        group.min_resources[name] = max(amount, 0)


def set_closeness(group: Group, field: str, wire: NetworkTopology | None) -> None:
    """Volcano's networkTopology; hard without a tier asks for nothing, as there."""
    if wire is None:
        return
    if wire.mode not in ("", "hard", "soft"):
        broken(group, f"{field}.mode", f"expected `hard` or `soft`, got `{wire.mode}`")
        return
    hard = wire.mode != "soft"
    if hard and wire.highest_tier_allowed is None and not wire.highest_tier_name:
        return
    group.closeness = Closeness(tier=wire.highest_tier_allowed, tier_name=wire.highest_tier_name, hard=hard)


def broken(group: Group, field: str, problem: str) -> None:
    """Keep the first thing that makes no sense."""
    group.broken = group.broken or f"{field}: {problem}"


def does_not_exist(namespace: str, name: str) -> Group:
    """A group that is named and is not there: its pods wait for it; those that run are a gang as they are."""
    return Group(namespace=namespace, name=name, minimum=None, broken=f"PodGroup `{namespace}/{name}` does not exist")
