"""Queues, and quotas with the weights that they give to namespaces."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from maar.kube.read.requests import amounts, quantity_error
from maar.kube.wire import annotations as known
from maar.kube.wire.base import Quantities
from maar.kube.wire.cluster import Queue as WireQueue
from maar.kube.wire.cluster import QueueAffinity, ResourceQuota
from maar.kube.wire.errors import FieldError
from maar.kube.wire.values import seconds
from maar.model.queues import GroupLimits, NodeGroups, Queue
from maar.model.resources import QuantityError, counted_as, units
from maar.model.snapshot import Quota

OPEN = ("", "Open", "open")
"""States in which a queue takes jobs; a missing one counts as Open."""


def queue(wire: WireQueue, now: float = 0.0) -> Queue:
    """One queue; an invalid field is kept as the reason why its jobs wait."""
    spec, problems = wire.spec, list[str]()
    if spec.weight < 1:
        problems.append(f"spec.weight: expected a number of at least 1, got `{spec.weight}`")
    hierarchy, weights = _hierarchy(wire, problems)
    return Queue(
        name=wire.name,
        weight=max(spec.weight, 1),
        capability=_amounts("spec.capability", spec.capability, problems),
        deserved=_amounts("spec.deserved", spec.deserved, problems),
        guarantee=_amounts("spec.guarantee.resource", spec.guarantee.resource, problems),
        parent=spec.parent,
        priority=spec.priority,
        reclaimable=spec.reclaimable,
        open=wire.status.state in OPEN and spec.state in OPEN,
        hierarchy=hierarchy,
        hierarchy_weights=weights,
        created=seconds(wire.metadata.creation_timestamp, now),
        uid=wire.metadata.uid,
        broken=problems[0] if problems else "",
        namespaces=_names(wire, known.NAMESPACES),
        priority_classes=_names(wire, known.PRIORITY_CLASSES),
        node_groups=None if spec.affinity is None else node_groups(spec.affinity),
        group_limits=group_limits(wire.metadata.annotations.get(known.GROUP_LIMITS, "")),
        pin=wire.metadata.annotations.get(known.SHARD, "")[: known.LONGEST_VALUE],
    )


def node_groups(wire: QueueAffinity) -> NodeGroups:
    """The node groups of a queue; of a name that is listed twice the first place counts."""
    for_, against = wire.node_group_affinity, wire.node_group_anti_affinity
    lists = (for_.required, for_.preferred, against.required, against.preferred)
    return NodeGroups(*(tuple(dict.fromkeys(names)) for names in lists))


def group_limits(text: str) -> GroupLimits:
    """What jobs of a queue may have in node groups; a malformed text is a problem for the plugin that needs it."""
    if not text:
        return GroupLimits()
    try:
        written = msgspec.json.decode(text, type=dict[str, dict[str, str | int | float]])
    except (msgspec.DecodeError, RecursionError):
        example = '{"group": {"cpu": "8"}}'
        return GroupLimits(problem=f"`{known.GROUP_LIMITS}`: expected JSON like `{example}`, got `{text[:60]}`")
    found: dict[str, dict[str, int]] = {}
    for group, quantities in written.items():
        try:
            found[group] = {name: units(name, value, up=False) for name, value in quantities.items()}
            negative = next((name for name, amount in found[group].items() if amount < 0), None)
        except QuantityError:
            return GroupLimits(problem=f"`{known.GROUP_LIMITS}`: {quantity_error(quantities, group)}")
        if negative is not None:
            wrong = f"expected an amount of at least 0, got `{quantities[negative]}`"
            return GroupLimits(problem=f"`{known.GROUP_LIMITS}`: {group}.{negative}: {wrong}")
    return GroupLimits(found)


def namespace_weight(quota: ResourceQuota) -> int | None:
    """The weight that a quota gives its namespace, at least 1; `None` if it gives none."""
    value = quota.spec.hard.get(known.NAMESPACE_WEIGHT)
    if value is None:
        return None
    try:
        return max(units(known.NAMESPACE_WEIGHT, value, up=False), 1)
    except QuantityError as error:
        raise FieldError(f"spec.hard.{known.NAMESPACE_WEIGHT}", str(error)) from None


def quota(wire: ResourceQuota) -> Quota | None:
    """A quota that is for all pods of its namespace, without the weight; `None` if there is nothing of the kind."""
    spec, status = wire.spec, wire.status
    if spec.scopes or spec.scope_selector is not None:
        return None
    limits, field = (status.hard, "status.hard") if status.hard else (spec.hard, "spec.hard")
    hard = _quota_amounts(limits, field, up=False)
    return Quota(wire.key, hard, _quota_amounts(status.used, "status.used", up=True)) if hard else None


def _quota_amounts(quantities: Quantities, field: str, *, up: bool) -> dict[str, int]:
    found = {}
    for name, value in quantities.items():
        if name == known.NAMESPACE_WEIGHT:
            continue
        try:
            found[name] = units(counted_as(name), value, up=up)
        except QuantityError as error:
            raise FieldError(f"{field}.{name}", str(error)) from None
    return found


def may_admit(before: ResourceQuota | None, after: ResourceQuota | None) -> bool:
    """Whether a change of a quota may let a group in: not if only more is used, as after each new pod."""
    if before is None or after is None or before.spec != after.spec or before.status.hard != after.status.hard:
        return True
    try:
        had, has = (_quota_amounts(q.status.used, "status.used", up=True) for q in (before, after))
    except FieldError:
        return True
    return any(has.get(name, 0) < amount for name, amount in had.items())


def namespace_weights(stated: Iterable[tuple[str, int | None]]) -> dict[str, int]:
    """The weight of each namespace: the largest that its quotas state."""
    weights: dict[str, int] = {}
    for namespace, weight in stated:
        if weight is not None:
            weights[namespace] = max(weight, weights.get(namespace, 1))
    return weights


def _amounts(field: str, quantities: Quantities | None, problems: list[str]) -> dict[str, int] | None:
    if quantities is None:
        return None
    try:
        found = amounts(quantities, field)
    except FieldError as error:
        problems.append(str(error))
        return {}
    for name, amount in found.items():
        if amount < 0:
            wrong = f"expected an amount of at least 0, got `{quantities[name]}`"
            problems.append(f"{field}.{name}: {wrong}")
    return {name: max(amount, 0) for name, amount in found.items()}


def _names(wire: WireQueue, key: str) -> tuple[str, ...] | None:
    """Names separated by commas; `None` if the annotation is missing or empty."""
    names = [name.strip() for name in wire.metadata.annotations.get(key, "").split(",")]
    return tuple(dict.fromkeys(name for name in names if name)) or None


def _hierarchy(wire: WireQueue, problems: list[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The path of hdrf, and the weight of each of its names."""
    path = wire.metadata.annotations.get(known.HIERARCHY, "")
    weights = wire.metadata.annotations.get(known.HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return (), ()
    steps, numbers = path.split("/"), weights.split("/")
    if not all(steps) or not path:
        problems.append(f"`{known.HIERARCHY}`: expected names like `root/eng/dev`, got `{path}`")
    elif not all(n.isascii() and n.isdecimal() and len(n) < 10 for n in numbers):
        problems.append(f"`{known.HIERARCHY_WEIGHTS}`: expected numbers like `1/2/8`, got `{weights}`")
    elif len(steps) != len(numbers):
        problems.append(
            f"`{known.HIERARCHY_WEIGHTS}`: expected as many as `{path}` has names ({len(steps)}), got `{weights}`"
        )
    else:
        return tuple(steps), tuple(max(int(n), 1) for n in numbers)
    return (), ()
