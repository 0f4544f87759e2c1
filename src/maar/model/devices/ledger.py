"""What is allocated already: whole devices, shares, what they consume of capacities and of counters that devices share.

Every allocation of a claim is taken once and given back once. Another scheduler may have given a device to two claims;
then it is free when both have given it back. Access for administration takes nothing. The ledger does not ask whether
something fits: that is the search's question.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from maar.model.devices.claim import AllocatedDevice, Allocation
from maar.model.devices.device import Device, DeviceId, PoolId

K = TypeVar("K")
V = TypeVar("V")

Counters = dict[tuple[PoolId, str, str], int]
"""The amount of a counter: its pool, its set and its name."""


class Changes(Protocol):
    """Writes changes, and may remember how to undo them: a journal."""

    def add(self, column: Any, index: Any, delta: Any) -> None: ...
    def put(self, where: dict[K, V], key: K, value: V) -> None: ...
    def drop(self, where: dict[K, V], key: K) -> None: ...


class Written:
    """Writes changes for good."""

    def add(self, column: Any, index: Any, delta: Any) -> None:
        column[index] += delta

    def put(self, where: dict[K, V], key: K, value: V) -> None:
        where[key] = value

    def drop(self, where: dict[K, V], key: K) -> None:
        del where[key]


FOR_GOOD = Written()


class DeviceLedger:
    """What claims hold of some devices."""

    __slots__ = ("_changes", "_devices", "_shares", "_whole", "capacity", "counters")

    def __init__(self, devices: Mapping[DeviceId, Device], changes: Changes = FOR_GOOD) -> None:
        self._devices = devices
        self._changes = changes
        self._whole: dict[DeviceId, int] = {}
        self._shares: dict[DeviceId, int] = {}
        self.capacity: dict[tuple[DeviceId, str], int] = {}
        """What shares consume of each capacity of a device."""
        self.counters: Counters = {}
        """What allocated devices consume of the counters of their pools."""

    def is_taken(self, device: DeviceId) -> bool:
        """Whether a claim has the whole device."""
        return device in self._whole

    def is_shared(self, device: DeviceId) -> bool:
        """Whether a claim has a share of the device."""
        return device in self._shares

    def used(self, device: DeviceId, capacity: str) -> int:
        """What shares of a device consume of one of its capacities."""
        return self.capacity.get((device, capacity), 0)

    def take(self, allocation: Allocation) -> None:
        for result in allocation.results:
            self._change(result, 1)

    def give_back(self, allocation: Allocation) -> None:
        for result in allocation.results:
            self._change(result, -1)

    def _change(self, result: AllocatedDevice, sign: int) -> None:
        if result.admin:
            return
        before = self._is_held(result.device)
        count(self._shares if result.share else self._whole, result.device, sign, self._changes)
        if result.share:
            for name, amount in result.consumed.items():
                count(self.capacity, (result.device, name), sign * amount, self._changes)
        device = self._devices.get(result.device)
        if device is not None and before != self._is_held(result.device):
            consume(self.counters, device, sign, self._changes)

    def _is_held(self, device: DeviceId) -> bool:
        return device in self._whole or device in self._shares

    def contents(self) -> tuple[dict[DeviceId, int], dict[DeviceId, int], dict[tuple[DeviceId, str], int], Counters]:
        """All that is taken: ledgers with equal contents are equal."""
        return self._whole, self._shares, self.capacity, self.counters


def consume(counters: Counters, device: Device, sign: int, changes: Changes = FOR_GOOD) -> None:
    """Count what a device takes of the counters of its pool, or gives back: once, however many claims share it."""
    for consumed in device.consumes:
        for name, amount in consumed.counters.items():
            count(counters, (device.id.of, consumed.counter_set, name), sign * amount, changes)


def count(counts: dict[K, int], key: K, change: int, changes: Changes = FOR_GOOD) -> None:
    """Add to a count; one of zero is not there."""
    if total := counts.get(key, 0) + change:
        changes.put(counts, key, total)
    elif key in counts:
        changes.drop(counts, key)
