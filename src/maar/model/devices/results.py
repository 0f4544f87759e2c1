"""From the devices that a search has chosen to the allocation of a claim: its nodes and its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maar.model.devices.claim import AllocatedConfig, DeviceClass, DeviceRequest, DevicesWanted, ResourceClaim
from maar.model.devices.device import Device, DevicePlace, NodeNames, PoolSlice
from maar.model.selectors import NodeTerm, Requirement

NOWHERE = DevicePlace()


class ClaimRefused(Exception):
    """The claims, or the devices that a search meets, cannot be understood; the text says why."""


def config(
    claim: ResourceClaim, picked: Sequence[tuple[DeviceRequest, DevicesWanted]], classes: Mapping[str, DeviceClass]
) -> tuple[AllocatedConfig, ...]:
    """The configurations of the classes, each once, then those of the claim for what was picked for each request.

    One that is for all requests names none.
    """
    of_class: dict[str, list[str]] = {}
    for request, needs in picked:
        of_class.setdefault(needs.device_class, []).append(request.full_name(needs))
    found = []
    for name, names in of_class.items():
        requests = tuple(names) if len(names) < len(picked) else ()
        for one in classes[name].config:
            found.append(AllocatedConfig(one.parameters, of_class=True, requests=requests))
    for one in claim.config:
        meant = [request for request, needs in picked if {request.name, request.full_name(needs)} & {*one.requests}]
        if meant or not one.requests:
            requests = one.requests if len(meant) < len(picked) else ()
            found.append(AllocatedConfig(one.parameters, of_class=False, requests=requests))
    return tuple(found)


def usable_on(chosen: Sequence[tuple[PoolSlice, Device]], node: NodeNames) -> tuple[NodeTerm, ...] | None:
    """The nodes that can use all these devices, as a term; `None`: all nodes."""
    expressions: list[Requirement] = []
    fields: list[Requirement] = []
    for of, device in chosen:
        place = of.place or device.place or NOWHERE
        if place.node_name or device.binds_to_node:
            return (NodeTerm(fields=(Requirement("metadata.name", "In", (node.name,)),)),)
        if place.terms and len(place.terms) > 1:
            raise ClaimRefused(
                f"device `{device.id}`: the selector of its nodes has {len(place.terms)} terms, expected 1"
            )
        for term in place.terms or ():
            _add_new(term.fields, fields)
            _add_new(term.expressions, expressions)
    return (NodeTerm(tuple(expressions), tuple(fields)),) if expressions or fields else None


def _add_new(found: Sequence[Requirement], known: list[Requirement]) -> None:
    """Add requirements that are not known yet, in whatever order their values are."""
    for one in found:
        if not any(_same(one, other) for other in known):
            known.append(one)


def _same(one: Requirement, other: Requirement) -> bool:
    return (one.key, one.operator, set(one.values)) == (other.key, other.operator, set(other.values))
