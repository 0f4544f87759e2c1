"""Scenes of devices and claims for the allocator: a class is chosen by the attribute `class` of devices.

The allocator gets what expressions say as an input, so these scenes need none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maar.model.devices.allocator import Features, Problem, Searched, allocate
from maar.model.devices.claim import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DevicesWanted,
    ResourceClaim,
    Selected,
    Selectors,
)
from maar.model.devices.device import (
    NANO,
    Attribute,
    Consumption,
    Device,
    DeviceCapacity,
    DeviceId,
    DevicePlace,
    NodeNames,
    PoolSlice,
)
from maar.model.devices.ledger import DeviceLedger
from maar.model.devices.pools import Inventory

DRIVER = "gpu.example.com"
NODE = NodeNames("n1", {"zone": "z1"})
LIMIT = 100_000


def device(name: str, of: str = "gpu", pool: str = "n1", **fields: Any) -> Device:
    """A device of a class. `memory`, in whole units, and `partition`, counters of the set `card`, are short forms."""
    attributes = {"class": Attribute("string", of)}
    for key, value in fields.pop("attributes", {}).items():
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
        attributes[key] = value if isinstance(value, Attribute) else Attribute(kind, value)  # type: ignore[arg-type]
    if (memory := fields.pop("memory", None)) is not None:
        fields["capacity"] = {"memory": DeviceCapacity(memory * NANO)}
    if (partition := fields.pop("partition", None)) is not None:
        fields["consumes"] = (Consumption("card", amounts(partition)),)
    return Device(DeviceId(DRIVER, pool, name), attributes, **fields)


def amounts(units: Mapping[str, int]) -> dict[str, int]:
    return {name: amount * NANO for name, amount in units.items()}


def pool_of(
    *devices: Device, card: Mapping[str, int] | None = None, node: str = "n1", **fields: Any
) -> list[PoolSlice]:
    """The slices of a pool: one with devices, and one with the counters of the set `card` if there are any."""
    pool = devices[0].id.of
    place = fields.pop("place", DevicePlace(node))
    slices = 1 if card is None else 2
    made = [PoolSlice(f"{pool.pool}-a", pool, fields.pop("generation", 1), slices, place, devices, **fields)]
    if card is not None:
        made.append(PoolSlice(f"{pool.pool}-b", pool, 1, slices, place, counters={"card": amounts(card)}))
    return made


def wants(name: str = "r", of: str = "gpu", count: int = 1, **fields: Any) -> DeviceRequest:
    """A request for devices of a class; `memory` is in whole units."""
    return DeviceRequest(name, exactly=alternative(name, of, count, **fields))


def alternative(name: str, of: str = "gpu", count: int = 1, **fields: Any) -> DevicesWanted:
    if (memory := fields.pop("memory", None)) is not None:
        fields["capacity"] = amounts({"memory": memory})
    return DevicesWanted(name, Selectors(of), count=count, **fields)


def claim(*requests: DeviceRequest, name: str = "c", **fields: Any) -> ResourceClaim:
    return ResourceClaim("ns", name, requests=requests, **fields)


def alike(attribute: str, *requests: str) -> DeviceConstraint:
    return DeviceConstraint(requests, match_attribute=f"{DRIVER}/{attribute}")


def different(attribute: str, *requests: str) -> DeviceConstraint:
    return DeviceConstraint(requests, distinct_attribute=f"{DRIVER}/{attribute}")


def problem(
    inventory: Inventory,
    claims: Iterable[ResourceClaim],
    features: Features | None = None,
    classes: Iterable[str] = (),
) -> Problem:
    """The classes are those that devices have, and `classes`."""
    of: dict[str, set[DeviceId]] = {name: set() for name in classes}
    for one in inventory.devices.values():
        of.setdefault(str(one.attributes["class"].value), set()).add(one.id)
    known = {name: DeviceClass(name) for name in of}
    selected = {Selectors(name): Selected(frozenset(ids)) for name, ids in of.items()}
    return Problem(tuple(claims), known, selected, features or Features())


def search(
    slices: Iterable[PoolSlice],
    *claims: ResourceClaim,
    node: NodeNames = NODE,
    ledger: DeviceLedger | None = None,
    features: Features | None = None,
    classes: Iterable[str] = (),
    limit: int = LIMIT,
) -> Searched:
    """What the allocator says about claims on a node."""
    inventory = Inventory(slices)
    asked = problem(inventory, claims, features, classes)
    return allocate(asked, node, inventory.on(node), ledger or DeviceLedger(inventory.devices), limit=limit)


def names(found: Searched) -> list[list[str]]:
    """The names of the devices of each claim."""
    return [[one.device.device for one in allocation.results] for allocation in found.allocations]
