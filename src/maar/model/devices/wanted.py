"""What claims want of one node, before the search: each alternative of each request, and the devices that match it.

This is where claims are refused that cannot be understood, or that ask for what the cluster does not support.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from maar.model.devices.capacity import CapacityError, consumption, fits
from maar.model.devices.claim import (
    MOST_DEVICES,
    AllocationMode,
    DeviceClass,
    DeviceRequest,
    DevicesWanted,
    ResourceClaim,
    Selected,
    Selectors,
)
from maar.model.devices.device import Device, DeviceId, NodeNames, PoolSlice
from maar.model.devices.ledger import DeviceLedger
from maar.model.devices.pools import DevicePool
from maar.model.devices.results import NOWHERE, ClaimRefused


class Features(msgspec.Struct, frozen=True):
    """What a cluster supports, by Kubernetes' feature gates; what is off is refused or not used, never ignored."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitions: bool = True
    taints: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    fractional_range: bool = False


class Problem(msgspec.Struct, frozen=True):
    """Claims without an allocation, and what is known about the cluster."""

    claims: Sequence[ResourceClaim]
    classes: Mapping[str, DeviceClass]
    selected: Mapping[Selectors, Selected]
    """For all needs of the claims whose class exists."""
    features: Features = Features()


class There(msgspec.Struct, frozen=True):
    """A device of a pool that the node can use."""

    device: Device
    of: PoolSlice
    pool: DevicePool


class Alternative:
    """One alternative of a request, or the only one."""

    __slots__ = ("claim", "count", "devices", "found", "more", "name", "needs", "request")

    def __init__(self, claim: ResourceClaim, request: DeviceRequest, needs: DevicesWanted) -> None:
        self.claim = claim
        self.request = request
        self.needs = needs
        self.name = request.full_name(needs)
        self.count = needs.count
        self.devices: list[There] = []
        """All devices that it wants, if it wants all."""
        self.found: list[There | str] = []
        """The candidates that were looked for, and the iterator of the others."""
        self.more: Iterator[There | str] | None = None

    @property
    def at(self) -> str:
        """Where it is, for messages."""
        return f"claim `{self.claim.key}`: request `{self.name}`"


class Wanted:
    """What claims want of the devices of one node."""

    def __init__(self, problem: Problem, node: NodeNames, pools: Sequence[DevicePool], ledger: DeviceLedger) -> None:
        self._problem = problem
        self._features = problem.features
        self._node = node
        self._pools = pools
        self._ledger = ledger
        self._consumed: dict[tuple[DeviceId, int], dict[str, int] | None] = {}
        self.alternatives = [self._of(claim) for claim in problem.claims]
        """By claim and request."""

    def _of(self, claim: ResourceClaim) -> list[list[Alternative]]:
        at_least = 0
        requests = []
        for request in claim.requests:
            alternatives = [Alternative(claim, request, needs) for needs in self._needs(claim, request)]
            for one in alternatives:
                self._check(one)
            fewest = min(one.count for one in alternatives)
            if at_least + fewest > MOST_DEVICES:
                raise ClaimRefused(
                    f"claim `{claim.key}`: request `{request.name}`: {fewest} devices, beside {at_least} of other"
                    f" requests, are more than a claim can hold: {MOST_DEVICES}"
                )
            at_least += fewest
            requests.append(alternatives)
        for i, constraint in enumerate(claim.constraints):
            if not constraint.match_attribute and not constraint.distinct_attribute:
                raise ClaimRefused(f"claim `{claim.key}`: constraints[{i}]: of a kind that is not supported")
        return requests

    def _needs(self, claim: ResourceClaim, request: DeviceRequest) -> tuple[DevicesWanted, ...]:
        at = f"claim `{claim.key}`: request `{request.name}`"
        if request.first_available and not self._features.prioritized_list:
            raise ClaimRefused(f"{at}: has alternatives, which the cluster does not support")
        found = request.first_available or ((request.exactly,) if request.exactly is not None else ())
        if not found:
            raise ClaimRefused(f"{at}: of a kind that is not supported")
        if not self._features.consumable_capacity and any(needs.capacity is not None for needs in found):
            raise ClaimRefused(f"{at}: asks for capacity of devices, which the cluster does not support")
        return found

    def _check(self, one: Alternative) -> None:
        needs = one.needs
        for i, expression in enumerate(needs.selectors.expressions):
            if not expression:
                raise ClaimRefused(f"{one.at}: selectors[{i}]: of a kind that is not supported")
        if needs.admin is not None and not self._features.admin_access:
            raise ClaimRefused(f"{one.at}: asks for admin access, which the cluster does not support")
        if needs.device_class not in self._problem.classes:
            raise ClaimRefused(f"{one.at}: no device class `{needs.device_class}`")
        if needs.mode is AllocationMode.UNKNOWN:
            raise ClaimRefused(f"{one.at}: its allocation mode is not supported")
        if needs.mode is AllocationMode.ALL:
            one.devices = list(self._all(one))
            one.count = len(one.devices)

    def _all(self, one: Alternative) -> Iterator[There]:
        """All matching devices that could hold the request if they were free; if one is in use, nothing fits."""
        for pool in self._pools:
            if pool.incomplete:
                raise ClaimRefused(f"{one.at}: wants all devices, but pool `{pool.id}` is being updated")
            if pool.invalid:
                raise ClaimRefused(f"{one.at}: wants all devices, but pool `{pool.id}` is invalid: {pool.invalid}")
            for there in _devices(pool):
                match = self._matches(one, there)
                if isinstance(match, str):
                    raise ClaimRefused(match)
                taken = self.consumption(one, there.device) if match else None
                if taken is not None and fits(there.device, taken, {}):
                    yield there

    def _matches(self, one: Alternative, there: There) -> bool | str:
        """Whether a device matches the selectors, and the node its place; a text: an expression has no value."""
        if there.device.binding_conditions and not self._features.binding_conditions:
            return False
        selected = self._problem.selected[one.needs.selectors]
        if error := selected.error or selected.faulty.get(there.device.id):
            return f"claim `{one.claim.key}`: {error}"
        if there.device.id not in selected.devices:
            return False
        return there.of.place is not None or (there.device.place or NOWHERE).includes(self._node)

    def candidate(self, one: Alternative, number: int) -> There | str | None:
        """A device that an alternative can have, by its number in the order in which they are tried.

        A text: a device on which an expression has no value; `None`: there are no more. They are looked for when they
        are asked for: most searches need only the first.
        """
        if one.more is None:
            one.more = self._find(one)
        while len(one.found) <= number:
            if (following := next(one.more, None)) is None:
                return None
            one.found.append(following)
        return one.found[number]

    def _find(self, one: Alternative) -> Iterator[There | str]:
        for pool in self._pools:
            if not pool.usable:
                continue
            for there in _devices(pool):
                if not one.needs.admin and self._ledger.is_taken(there.device.id):
                    continue
                match = self._matches(one, there)
                if isinstance(match, str):
                    yield match
                elif match:
                    yield there

    def consumption(self, one: Alternative, device: Device) -> Mapping[str, int] | None:
        """What an alternative consumes of the capacities of a device; `None` if it cannot have the device."""
        if not self._features.consumable_capacity:
            return {}
        key = (device.id, id(one))
        if key not in self._consumed:
            try:
                self._consumed[key] = consumption(device, one.needs.capacity, fractions=self._features.fractional_range)
            except CapacityError as error:
                raise ClaimRefused(f"{one.at}: {error}") from None
        return self._consumed[key]


def _devices(pool: DevicePool) -> Iterator[There]:
    return (There(device, of, pool) for of, device in pool.devices)
