"""Devices as drivers publish them: attributes, capacities, counters that partitions share, taints, and where they are.

Names are those of Kubernetes' ResourceSlice. Amounts are whole billionths (`NANO`), which is as fine as Kubernetes'
quantities get, so sums and comparisons are exact. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from maar.model.selectors import Labels, NodeTerm, Taint, Toleration

NANO = 10**9
"""Amounts of capacities and counters are in units of 1/NANO."""

Amounts = Mapping[str, int]
"""The name of a capacity or counter, and an amount in billionths."""


class PoolId(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """Pools of two drivers may have one name."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """Identifies a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"

    @property
    def of(self) -> PoolId:
        """The pool of the device."""
        return PoolId(self.driver, self.pool)


class Attribute(msgspec.Struct, frozen=True):
    """A value with its type: the number 1 is not `true`, and the version `1.0.0` is not the text.

    The type `unsupported` stands for what a later Kubernetes may add; no expression can be evaluated on its device.
    Constraints compare single values only.
    """

    type: Literal["bool", "int", "string", "version", "bools", "ints", "strings", "versions", "unsupported"]
    value: bool | int | str | tuple[bool | int | str, ...] = ""

    @property
    def is_single(self) -> bool:
        return self.type in ("bool", "int", "string", "version")


class Range(msgspec.Struct, frozen=True):
    """Amounts from `least` to `most`, in steps from `least` on."""

    least: int
    most: int | None = None
    step: int | None = None


class RequestPolicy(msgspec.Struct, frozen=True):
    """What requests may consume of a capacity."""

    default: int | None = None
    values: tuple[int, ...] = ()
    """Allowed amounts, in ascending order."""
    range: Range | None = None


class DeviceCapacity(msgspec.Struct, frozen=True):
    amount: int
    policy: RequestPolicy | None = None


class Consumption(msgspec.Struct, frozen=True):
    """What a device takes from one set of counters of its pool."""

    counter_set: str
    counters: Amounts


class DevicePlace(msgspec.Struct, frozen=True):
    """The nodes that can use a device: one by name, all, or those that match one of the terms."""

    node_name: str = ""
    all_nodes: bool = False
    terms: tuple[NodeTerm, ...] | None = None

    def includes(self, node: NodeNames) -> bool:
        if self.node_name:
            return self.node_name == node.name
        return self.all_nodes or any(_selects(term, node) for term in self.terms or ())


class NodeNames(msgspec.Struct, frozen=True):
    """What places ask of a node."""

    name: str
    labels: Labels = {}


def _selects(term: NodeTerm, node: NodeNames) -> bool:
    if not term.expressions and not term.fields:
        return False
    name = {"metadata.name": node.name}
    return all(r.matches(node.labels) for r in term.expressions) and all(r.matches(name) for r in term.fields)


class DeviceToleration(Toleration, frozen=True, order=True):
    """A toleration of taints of devices."""

    seconds: int | None = None
    """How long a taint with the effect NoExecute is tolerated; only eviction reads it."""


class Device(msgspec.Struct, frozen=True):
    """One device of a slice."""

    id: DeviceId
    attributes: Mapping[str, Attribute] = {}
    """By name; a name without a domain is in the domain of the driver."""
    capacity: Mapping[str, DeviceCapacity] = {}
    consumes: tuple[Consumption, ...] = ()
    taints: tuple[Taint, ...] = ()
    place: DevicePlace | None = None
    """Where the device is if its slice leaves that to each device."""
    shared: bool = False
    """allowMultipleAllocations: several claims hold shares of it."""
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()

    def attribute(self, name: str) -> Attribute | None:
        """The attribute with a full name, such as `dra.example.com/model`."""
        if (found := self.attributes.get(name)) is not None:
            return found
        domain, _, short = name.partition("/")
        return self.attributes.get(short) if short and domain == self.id.driver else None

    def keeps_off(self, tolerations: tuple[DeviceToleration, ...]) -> Taint | None:
        """The first taint that these tolerations do not tolerate; the effect `None` only informs."""
        for taint in self.taints:
            if taint.effect in BLOCKING and not any(t.tolerates(taint) for t in tolerations):
                return taint
        return None


BLOCKING = ("NoSchedule", "NoExecute")
"""The effects that keep new claims off."""


class PoolSlice(msgspec.Struct, frozen=True):
    """A ResourceSlice: some of the devices of a pool, or counters that devices of the pool share."""

    name: str
    pool: PoolId
    generation: int
    slices: int
    """How many slices the pool has in this generation."""
    place: DevicePlace | None
    """Where all devices are; `None`: each says that itself."""
    devices: tuple[Device, ...] = ()
    counters: Mapping[str, Amounts] = {}
    """Counters by the name of their set."""
    duplicate_set: str = ""
    """A name that two sets of counters in the slice have."""

    def on(self, node: NodeNames) -> bool:
        """Whether the node can use one of the devices."""
        if self.place is not None:
            return self.place.includes(node)
        return any(d.place is not None and d.place.includes(node) for d in self.devices)
