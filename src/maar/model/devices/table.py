"""The device table: for each kind of request, how many free matching devices each node has, as columns of numbers.

It says for all nodes at once how many pods with the same claims fit at most. For a claim of plain devices with one
request that is exact (`is_exact`); partitions, shares, constraints and several requests make it an upper bound, and
the allocator decides on the node that is about to be chosen. So it prunes and proves, and never promises.

A device is a row, also of every older generation of its pool that may still count. `open` says for each request how
many claims can have the device at most, and `free` adds that up by node. Taking an allocation changes only the devices
of the allocation and those that share counters with them. All changes go through `Changes`, so that the journal of a
session can undo them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from maar.model.devices.capacity import CapacityError, consumption
from maar.model.devices.claim import (
    Allocation,
    AllocationMode,
    DeviceRequest,
    DevicesWanted,
    ResourceClaim,
    Selected,
    Selectors,
)
from maar.model.devices.device import Amounts, Device, DeviceId, DevicePlace, NodeNames, PoolId
from maar.model.devices.ledger import FOR_GOOD, Changes, DeviceLedger
from maar.model.devices.pools import Inventory
from maar.model.devices.results import NOWHERE
from maar.model.devices.wanted import Problem
from maar.model.resources import Ints, Mask

MANY = 2**20
"""Shares of a device that consume nothing of it, and pods whose claims have no limit; more than a node can run."""

SEVERAL = -1
"""The node row of a device that several nodes can use."""


class Kind(NamedTuple):
    """Requests of one kind can have the same devices."""

    selectors: Selectors
    tolerations: object
    capacity: tuple[tuple[str, int], ...] | None
    admin: bool


class FreeDevices:
    """What the requests of one kind can have."""

    __slots__ = ("consumed", "free", "is_plain", "open", "possible")

    def __init__(self, possible: Mask, consumed: dict[int, Amounts], nodes: int, is_plain: bool) -> None:
        self.possible = possible
        """The devices that match, whatever is taken."""
        self.consumed = consumed
        """What a share of a device consumes, by row of the device."""
        self.is_plain = is_plain
        """Whether each of the devices is wholly free or not, on one node, whatever else is chosen."""
        self.open: Ints = np.zeros(len(possible), dtype=np.int64)
        self.free: Ints = np.zeros(nodes, dtype=np.int64)


class DeviceTable:
    """All devices that a cluster can give out, and what is free of them."""

    def __init__(
        self, inventory: Inventory, nodes: Sequence[NodeNames], ledger: DeviceLedger, changes: Changes = FOR_GOOD
    ) -> None:
        """`ledger` writes through the same `changes`."""
        self.ledger = ledger
        self._changes = changes
        self._nodes = nodes
        self._devices: list[Device] = []
        self._available: list[dict[tuple[str, str], int]] = []
        """For each device, what its pool has of each counter."""
        self._rows: dict[DeviceId, list[int]] = {}
        self._partitions: dict[PoolId, list[int]] = {}
        """The rows of devices that consume counters of a pool."""
        self._certain: list[bool] = []
        places: list[DevicePlace] = []
        for pool in inventory.candidates():
            available = {(s, c): amount for s, counters in pool.counters.items() for c, amount in counters.items()}
            for of, device in pool.devices:
                row = len(self._devices)
                self._devices.append(device)
                self._available.append(available)
                self._certain.append(pool.certain)
                self._rows.setdefault(device.id, []).append(row)
                places.append(of.place or device.place or NOWHERE)
                if device.consumes:
                    self._partitions.setdefault(pool.id, []).append(row)
        self._node_row, self._several = self._where(places)
        self._columns: dict[Kind, FreeDevices] = {}

    def _where(self, places: list[DevicePlace]) -> tuple[Ints, dict[int, Ints]]:
        """The node row of each device, and the rows of those that several nodes can use."""
        index = {node.name: row for row, node in enumerate(self._nodes)}
        node_row = np.full(len(places), SEVERAL, dtype=np.int64)
        several: dict[int, Ints] = {}
        known: dict[DevicePlace, Ints] = {}
        nowhere = np.zeros(0, dtype=np.int64)
        for row, place in enumerate(places):
            if place.node_name:
                if place.node_name in index:
                    node_row[row] = index[place.node_name]
                else:
                    several[row] = nowhere
                continue
            if place not in known:
                matching = [i for i, node in enumerate(self._nodes) if place.includes(node)]
                known[place] = np.array(matching, dtype=np.int64)
            several[row] = known[place]
        return node_row, several

    # -- questions

    def room(self, claims: Iterable[ResourceClaim], problem: Problem) -> Ints:
        """How many pods with such claims fit on each node at most."""
        room = np.full(len(self._nodes), MANY, dtype=np.int64)
        together: dict[Kind, tuple[FreeDevices, int]] = {}
        for claim in claims:
            for request in claim.requests:
                np.minimum(room, self._of_request(request, problem), out=room)
                if (needs := request.exactly) is not None and needs.mode is AllocationMode.EXACT_COUNT:
                    column = self.column(needs, problem)
                    together[kind(needs)] = (column, together.get(kind(needs), (column, 0))[1] + needs.count)
        for column, count in together.values():
            if count:
                np.minimum(room, column.free // count, out=room)
        return room

    def _of_request(self, request: DeviceRequest, problem: Problem) -> Ints:
        alternatives = request.first_available or [needs for needs in (request.exactly,) if needs is not None]
        room = np.zeros(len(self._nodes), dtype=np.int64)
        for needs in alternatives:
            free = self.column(needs, problem).free
            room += np.minimum(free // max(needs.count, 1) if needs.mode is AllocationMode.EXACT_COUNT else free, MANY)
        return room

    def is_exact(self, claims: Sequence[ResourceClaim], problem: Problem) -> bool:
        """Whether `room` is not only an upper bound: pods with such claims fit exactly that often."""
        if len(claims) != 1 or len(claims[0].requests) != 1 or claims[0].constraints:
            return False
        needs = claims[0].requests[0].exactly
        if needs is None or needs.mode is not AllocationMode.EXACT_COUNT or needs.admin:
            return False
        return self.column(needs, problem).is_plain

    def column(self, needs: DevicesWanted, problem: Problem) -> FreeDevices:
        """What requests of this kind can have; made when it is asked for first."""
        key = kind(needs)
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = self._new(needs, problem.selected.get(needs.selectors, Selected()))
            rows = np.flatnonzero(column.possible)
            column.open[rows] = [self._open(column, key, row) for row in rows.tolist()]
            local = rows[self._node_row[rows] >= 0]
            np.add.at(column.free, self._node_row[local], column.open[local])
            for row in rows[self._node_row[rows] < 0].tolist():
                column.free[self._several[row]] += column.open[row]
        return column

    def _new(self, needs: DevicesWanted, selected: Selected) -> FreeDevices:
        possible = np.zeros(len(self._devices), dtype=np.bool_)
        consumed: dict[int, Amounts] = {}
        plain = not selected.faulty and not selected.error
        for identity in () if selected.error else selected.devices:
            for row in self._rows.get(identity, ()):
                device = self._devices[row]
                if device.taints and device.keeps_off(needs.tolerations) is not None:
                    continue
                taken: Amounts | None = {}
                if device.capacity or needs.capacity:
                    try:
                        taken = consumption(device, needs.capacity)
                    except CapacityError:
                        taken, plain = None, False
                if taken is None or any(amount > device.capacity[name].amount for name, amount in taken.items()):
                    continue
                possible[row] = True
                if device.shared:
                    consumed[row] = taken
                if device.shared or device.consumes or self._node_row[row] < 0 or not self._certain[row]:
                    plain = False
        return FreeDevices(possible, consumed, len(self._nodes), plain)

    def _open(self, column: FreeDevices, of: Kind, row: int) -> int:
        """How many claims can have a device that matches, by itself."""
        device = self._devices[row]
        if of.admin:
            return 1
        if self.ledger.is_taken(device.id):
            return 0
        in_use = device.shared and self.ledger.is_shared(device.id)
        if device.consumes and not in_use and not self._has_counters(device, row):
            return 0
        if not device.shared:
            return 1
        shares = MANY
        for name, amount in column.consumed[row].items():
            left = device.capacity[name].amount - self.ledger.used(device.id, name)
            if left < amount:
                return 0
            if amount:
                shares = min(shares, left // amount)
        return shares

    def _has_counters(self, device: Device, row: int) -> bool:
        available, used, pool = self._available[row], self.ledger.counters, device.id.of
        for consumed in device.consumes:
            for name, amount in consumed.counters.items():
                of = (consumed.counter_set, name)
                if used.get((pool, *of), 0) + amount > available.get(of, 0):
                    return False
        return True

    # -- verbs

    def take(self, allocation: Allocation) -> None:
        """An allocation takes its devices."""
        self.ledger.take(allocation)
        self._refresh(allocation)

    def give_back(self, allocation: Allocation) -> None:
        self.ledger.give_back(allocation)
        self._refresh(allocation)

    def _refresh(self, allocation: Allocation) -> None:
        rows = {row for result in allocation.results for row in self._rows.get(result.device, ())}
        pools = {self._devices[row].id.of for row in rows if self._devices[row].consumes}
        rows.update(row for pool in pools for row in self._partitions[pool])
        ordered = sorted(rows)
        for of, column in self._columns.items():
            for row in ordered:
                if not column.possible[row]:
                    continue
                if delta := self._open(column, of, row) - int(column.open[row]):
                    at = self._node_row[row]
                    self._changes.add(column.open, row, delta)
                    self._changes.add(column.free, at if at >= 0 else self._several[row], delta)


def kind(needs: DevicesWanted) -> Kind:
    """What requests of one kind have in common."""
    capacity = None if needs.capacity is None else tuple(sorted(needs.capacity.items()))
    return Kind(needs.selectors, needs.tolerations, capacity, bool(needs.admin))
