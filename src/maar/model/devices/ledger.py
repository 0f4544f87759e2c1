"""What is allocated already: whole devices, shares, what they consume of capacities and of counters that devices share.

Every allocation of a claim is taken once and given back once. Another scheduler may have given a device to two claims;
then it is free when both have given it back. Access for administration takes nothing. The ledger does not ask whether
something fits: that is the search's question.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from maar.model.devices.claim import AllocatedDevice, Allocation
from maar.model.devices.device import Amounts, Device, DeviceId, PoolId

K = TypeVar("K")

Counters = dict[tuple[PoolId, str, str], int]
"""The amount of a counter: its pool, its set and its name."""


class DeviceLedger:
    """What claims hold of some devices."""

    __slots__ = ("_devices", "_shares", "_whole", "capacity", "counters")

    def __init__(self, devices: Mapping[DeviceId, Device]) -> None:
        self._devices = devices
        self._whole: dict[DeviceId, int] = {}
        self._shares: dict[DeviceId, int] = {}
        self.capacity: dict[DeviceId, dict[str, int]] = {}
        """What shares consume of each capacity of a device."""
        self.counters: Counters = {}
        """What allocated devices consume of the counters of their pools."""

    def is_taken(self, device: DeviceId) -> bool:
        """Whether a claim has the whole device."""
        return device in self._whole

    def is_shared(self, device: DeviceId) -> bool:
        """Whether a claim has a share of the device."""
        return device in self._shares

    def take(self, allocation: Allocation) -> None:
        for result in allocation.results:
            self._change(result, 1)

    def give_back(self, allocation: Allocation) -> None:
        for result in allocation.results:
            self._change(result, -1)

    def _change(self, result: AllocatedDevice, sign: int) -> None:
        if result.admin:
            return
        before = self._holders(result.device)
        _count(self._shares if result.share else self._whole, result.device, sign)
        if result.share:
            used = self.capacity.setdefault(result.device, {})
            for name, amount in result.consumed.items():
                _count(used, name, sign * amount)
            if not used:
                del self.capacity[result.device]
        after = self._holders(result.device)
        if bool(before) != bool(after) and (device := self._devices.get(result.device)) is not None:
            consume(self.counters, device, sign)

    def _holders(self, device: DeviceId) -> int:
        return self._whole.get(device, 0) + self._shares.get(device, 0)

    def contents(self) -> tuple[dict[DeviceId, int], dict[DeviceId, int], dict[DeviceId, dict[str, int]], Counters]:
        """All that is taken: ledgers with equal contents are equal."""
        return self._whole, self._shares, self.capacity, self.counters

    def used(self, device: DeviceId) -> Amounts:
        """What shares of a device consume of its capacities."""
        return self.capacity.get(device, {})


def consume(counters: Counters, device: Device, sign: int) -> None:
    """Count what a device takes of the counters of its pool, or gives back: once, however many claims share it."""
    for consumed in device.consumes:
        for name, amount in consumed.counters.items():
            _count(counters, (device.id.of, consumed.counter_set, name), sign * amount)


def _count(counts: dict[K, int], key: K, change: int) -> None:
    if total := counts.get(key, 0) + change:
        counts[key] = total
    else:
        counts.pop(key, None)
