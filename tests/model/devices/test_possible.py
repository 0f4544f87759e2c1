"""*Safety* and *liveness* of the allocator: it finds something exactly if something is possible.

The reference tries all choices of devices for all requests of small random scenes, and looks at each as a whole. It has
no order, no state that is undone, and none of the allocator's code.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations, product

import pytest
from tests.support.devices import alike, alternative, amounts, claim, device, different, pool_of, search

from maar.model.devices.allocator import Outcome
from maar.model.devices.claim import (
    AllocatedDevice,
    Allocation,
    AllocationMode,
    DeviceConstraint,
    DeviceRequest,
    DevicesWanted,
    ResourceClaim,
)
from maar.model.devices.device import Device, DeviceToleration, PoolSlice
from maar.model.devices.ledger import DeviceLedger
from maar.model.devices.pools import Inventory
from maar.model.selectors import Taint

SCENES = 500
CARD = {"memory": 4}
Choice = tuple[int, DeviceRequest, DevicesWanted, tuple[Device, ...]]
"""The number of a claim, one of its requests, the alternative that was picked, and its devices."""


def scene(dice: random.Random) -> tuple[list[PoolSlice], list[ResourceClaim], list[AllocatedDevice]]:
    """Up to seven devices, up to four requests, and what is taken already."""
    devices = [a_device(dice, f"d{i}") for i in range(dice.randint(3, 7))]
    slices = pool_of(*devices, card=CARD)
    claims, left = [], 4
    for i in range(dice.randint(1, 2)):
        requests = [a_request(dice, f"r{k}") for k in range(dice.randint(1, max(1, min(2, left - 1))))]
        left -= len(requests)
        claims.append(claim(*requests, name=f"c{i}", constraints=some_constraints(dice, requests)))
    taken = []
    for one in devices:
        if dice.random() < 0.1:
            consumed = {"memory": amounts({"memory": 1})["memory"]} if one.shared else {}
            taken.append(AllocatedDevice("r", one.id, share=one.shared, consumed=consumed))
    return slices, claims, taken


def a_device(dice: random.Random, name: str) -> Device:
    attributes = {key: dice.randint(0, 1) for key in ("numa", "model") if dice.random() < 0.9}
    return device(
        name,
        dice.choice(("gpu", "gpu", "nic")),
        attributes=attributes,
        memory=dice.randint(1, 3),
        partition={"memory": dice.randint(1, 3)} if dice.random() < 0.4 else None,
        taints=(Taint("bad", "", "NoSchedule"),) if dice.random() < 0.15 else (),
        shared=dice.random() < 0.4,
    )


def a_request(dice: random.Random, name: str) -> DeviceRequest:
    if dice.random() < 0.3:
        return DeviceRequest(name, first_available=tuple(wanted(dice, f"s{i}") for i in range(dice.randint(1, 2))))
    return DeviceRequest(name, exactly=wanted(dice, name))


def wanted(dice: random.Random, name: str) -> DevicesWanted:
    return alternative(
        name,
        dice.choice(("gpu", "gpu", "nic")),
        dice.randint(1, 2),
        mode=AllocationMode.ALL if dice.random() < 0.15 else AllocationMode.EXACT_COUNT,
        tolerations=(DeviceToleration("bad", "Exists"),) if dice.random() < 0.3 else (),
        memory=dice.randint(1, 2) if dice.random() < 0.5 else None,
    )


def some_constraints(dice: random.Random, requests: Sequence[DeviceRequest]) -> tuple[DeviceConstraint, ...]:
    found = []
    for kind in (alike, different):
        if dice.random() < 0.3:
            of = [one.name for one in requests if dice.random() < 0.7]
            found.append(kind(dice.choice(("numa", "model")), *of))
    return tuple(found)


# The reference


def is_possible(slices: Sequence[PoolSlice], claims: Sequence[ResourceClaim], taken: Sequence[AllocatedDevice]) -> bool:
    devices = [one for each in slices for one in each.devices]
    every = [(i, request) for i, each in enumerate(claims) for request in each.requests]
    return any(
        holds(choices, claims, taken, devices)
        for choices in product(*(list(choices_of(i, request, devices)) for i, request in every))
    )


def choices_of(i: int, request: DeviceRequest, devices: Sequence[Device]) -> Iterator[Choice]:
    for needs in request.first_available or [request.exactly]:
        assert needs is not None
        matching = [one for one in devices if one.attributes["class"].value == needs.device_class]
        enough = [one for one in matching if memory(needs, one) <= one.capacity["memory"].amount]
        if needs.mode is AllocationMode.ALL:
            if enough:
                yield i, request, needs, tuple(enough)
        else:
            yield from ((i, request, needs, some) for some in combinations(enough, needs.count))


def memory(needs: DevicesWanted, one: Device) -> int:
    return one.capacity["memory"].amount if needs.capacity is None else needs.capacity["memory"]


def holds(
    choices: Sequence[Choice],
    claims: Sequence[ResourceClaim],
    taken: Sequence[AllocatedDevice],
    devices: Sequence[Device],
) -> bool:
    for one in devices:
        whole = [t for t in taken if t.device == one.id and not t.share]
        shares = [t.consumed["memory"] for t in taken if t.device == one.id and t.share]
        chosen = [needs for _, _, needs, some in choices if one in some]
        if not chosen:
            continue
        if whole or (not one.shared and len(chosen) > 1):
            return False
        if one.shared and sum(shares) + sum(memory(n, one) for n in chosen) > one.capacity["memory"].amount:
            return False
        if one.taints and not all(needs.tolerations for needs in chosen):
            return False
    used = {t.device for t in taken} | {one.id for *_, some in choices for one in some}
    partitions = [one for one in devices if one.id in used and one.consumes]
    consumers = {one.id for *_, some in choices for one in some if one.consumes}
    if consumers - {t.device for t in taken}:
        total = sum(c.counters.get("memory", 0) for one in partitions for c in one.consumes)
        if total > amounts(CARD)["memory"]:
            return False
    return all(
        meets(constraint, [(request, needs, some) for at, request, needs, some in choices if at == i])
        for i, each in enumerate(claims)
        for constraint in each.constraints
    )


def meets(
    constraint: DeviceConstraint, chosen: Sequence[tuple[DeviceRequest, DevicesWanted, tuple[Device, ...]]]
) -> bool:
    name = (constraint.match_attribute or constraint.distinct_attribute).partition("/")[2]
    concerned = [
        one
        for request, needs, some in chosen
        if not constraint.requests
        or request.name in constraint.requests
        or f"{request.name}/{needs.name}" in constraint.requests
        for one in some
    ]
    values = [one.attributes[name].value if name in one.attributes else None for one in concerned]
    if None in values:
        return False
    return len(set(values)) <= 1 if constraint.match_attribute else len(set(values)) == len(values)


@pytest.mark.parametrize("part", range(5))
def test_liveness_something_is_found_exactly_if_something_is_possible(part: int) -> None:
    counts = {True: 0, False: 0}
    for seed in range(part, SCENES, 5):
        slices, claims, taken = scene(random.Random(seed))
        inventory = Inventory(slices)
        ledger = DeviceLedger(inventory.devices)
        for one in taken:
            ledger.take(Allocation((one,)))
        found = search(slices, *claims, ledger=ledger, classes=("gpu", "nic"))
        expected = is_possible(slices, claims, taken)
        assert expected is (found.outcome is Outcome.ALLOCATED), f"seed {seed}: {found}"
        counts[expected] += 1
    assert min(counts.values()) >= 10, f"scenes that say little: {counts}"
