"""Pools: the slices of one generation, and what of them a node can use, in the order of Kubernetes' allocator.

Slices are compared once, when they change; a node's pools are then found without a look at other nodes. The newest
generation with devices for the node counts; if it is not all there, a newer one elsewhere replaces it. A pool whose
slices are not all there is incomplete, one that contradicts itself invalid: nothing is allocated from either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from maar.model.devices.device import Amounts, Device, DeviceId, NodeNames, PoolId, PoolSlice


class DevicePool:
    """A pool as one node can use it."""

    __slots__ = ("counters", "devices", "id", "incomplete", "invalid")

    def __init__(
        self,
        identity: PoolId,
        devices: tuple[tuple[PoolSlice, Device], ...],
        counters: Mapping[str, Amounts],
        incomplete: bool,
        invalid: str,
    ) -> None:
        self.id = identity
        self.devices = devices
        """The devices of its slices that the node can use, in the order of their slices' names. Where each device
        says where it is, some are elsewhere."""
        self.counters = counters
        """What each set of counters has, in all."""
        self.incomplete = incomplete
        self.invalid = invalid
        """Why it is invalid; usually empty."""

    @property
    def usable(self) -> bool:
        return not self.incomplete and not self.invalid

    @property
    def waits_for_conditions(self) -> bool:
        """Whether a device must be made ready before its pod is bound; such pools are tried last."""
        return any(device.binding_conditions for _, device in self.devices)


class _Generation:
    """All slices of a pool in one generation."""

    __slots__ = ("counters", "id", "invalid", "slices")

    def __init__(self, identity: PoolId, slices: list[PoolSlice]) -> None:
        self.id = identity
        self.slices = slices
        self.counters: dict[str, Amounts] = {}
        self.invalid = ""
        for one in slices:
            twice = one.duplicate_set or next((name for name in one.counters if name in self.counters), "")
            if twice and not self.invalid:
                self.invalid = f"two sets of counters have the name `{twice}`"
            self.counters.update(one.counters)
        self.invalid = self.invalid or next(filter(None, map(self._missing, slices)), "")

    def _missing(self, one: PoolSlice) -> str:
        """What a device consumes that the pool does not have, in words; usually empty."""
        for device in one.devices:
            for consumed in device.consumes:
                there = self.counters.get(consumed.counter_set)
                if there is None:
                    return f"device `{device.id.device}`: no set of counters `{consumed.counter_set}`"
                for name in sorted(consumed.counters):
                    if name not in there:
                        return f"device `{device.id.device}`: no counter `{name}` in set `{consumed.counter_set}`"
        return ""

    def pool(self, slices: list[PoolSlice], *, complete: bool) -> DevicePool:
        """The pool with the devices of some slices."""
        devices = tuple((one, device) for one in sorted(slices, key=lambda s: s.name) for device in one.devices)
        if not complete:
            return DevicePool(self.id, (), {}, incomplete=True, invalid="")
        names = Counter(device.id.device for _, device in devices)
        twice = min((name for name, times in names.items() if times > 1), default="")
        invalid = f"two devices have the name `{twice}`" if twice else self.invalid
        return DevicePool(self.id, devices, self.counters, incomplete=False, invalid=invalid)


class PoolEverywhere(NamedTuple):
    """A generation of a pool on all nodes."""

    id: PoolId
    devices: tuple[tuple[PoolSlice, Device], ...]
    counters: Mapping[str, Amounts]
    certain: bool
    """Whether every node can use it, if it can use one of its devices."""


class Inventory:
    """All slices of a cluster, with an index by node."""

    def __init__(self, slices: Iterable[PoolSlice], partitions: bool = True) -> None:
        """`partitions`: whether the cluster supports counters, and devices that say where they are."""
        self._local: dict[str, list[PoolSlice]] = {}
        """Slices with devices of one node."""
        self._anywhere: list[PoolSlice] = []
        """Other slices with devices."""
        self._newest: dict[PoolId, int] = {}
        self._newest_counters: dict[PoolId, int] = {}
        found: dict[tuple[PoolId, int], list[PoolSlice]] = {}
        for one in sorted(slices, key=lambda s: (s.pool, s.generation, s.name)):
            found.setdefault((one.pool, one.generation), []).append(one)
            self._newest[one.pool] = one.generation
            if one.counters:
                self._newest_counters[one.pool] = one.generation
            elif one.place is not None and one.place.node_name:
                self._local.setdefault(one.place.node_name, []).append(one)
            elif one.place is not None or partitions:
                self._anywhere.append(one)
        if not partitions:
            self._newest_counters.clear()
        self._generations = {key: _Generation(key[0], there) for key, there in found.items()}

    def candidates(self) -> Iterator[PoolEverywhere]:
        """Each generation of each pool that may count on some node."""
        for (identity, generation), found in sorted(self._generations.items()):
            if not found.invalid and len(found.slices) >= found.slices[0].slices:
                devices = tuple((one, device) for one in found.slices for device in one.devices)
                names = {device.id for _, device in devices}
                exact = len(found.slices) == found.slices[0].slices and len(names) == len(devices)
                yield PoolEverywhere(
                    identity, devices, found.counters, certain=exact and self._newest[identity] == generation
                )

    @cached_property
    def devices(self) -> Mapping[DeviceId, Device]:
        """All devices; of two generations of a pool the newer ones."""
        ordered = sorted(self._generations.items())
        return {device.id: device for _, pool in ordered for one in pool.slices for device in one.devices}

    def on(self, node: NodeNames) -> list[DevicePool]:
        """The pools with devices that a node can use, in the order in which they are tried."""
        there: dict[PoolId, list[PoolSlice]] = {}
        for one in (*self._local.get(node.name, ()), *self._anywhere):
            if one.on(node):
                there.setdefault(one.pool, []).append(one)
        found = (self._pool(identity, slices) for identity, slices in sorted(there.items()))
        return sorted(filter(None, found), key=lambda pool: pool.waits_for_conditions)

    def _pool(self, identity: PoolId, slices: list[PoolSlice]) -> DevicePool | None:
        """The pool of some slices with devices; `None` if another generation has replaced it."""
        counters = self._newest_counters.get(identity, -1)
        generation = max(counters, max(one.generation for one in slices))
        all_of_it = self._generations[identity, generation]
        slices = [one for one in slices if one.generation == generation]
        expected = all_of_it.slices[0].slices
        if len(slices) + sum(bool(one.counters) for one in all_of_it.slices) == expected:
            return all_of_it.pool(slices, complete=True)  # as Kubernetes: it asks no further
        if self._newest[identity] > generation:
            return None
        return all_of_it.pool(slices, complete=len(all_of_it.slices) == expected)
