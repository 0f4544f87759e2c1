"""Claims: what pods ask of devices, and what was allocated to them.

Names are those of Kubernetes' ResourceClaim and DeviceClass. Expressions are only text here: which devices they match
is evaluated outside of the decision, and arrives as `Selected`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from maar.model.devices.device import Amounts, DeviceId, DeviceToleration
from maar.model.selectors import NodeTerm

MOST_DEVICES = 32
"""Devices that one claim can hold: Kubernetes' limit."""


class Parameters(msgspec.Struct, frozen=True):
    """Opaque parameters for a driver, as JSON."""

    driver: str
    json: bytes


class DeviceConfig(msgspec.Struct, frozen=True):
    """Parameters for the devices of some requests."""

    parameters: Parameters | None = None
    requests: tuple[str, ...] = ()
    """The requests that it is for; empty: all."""


class DeviceClass(msgspec.Struct, frozen=True):
    name: str
    selectors: tuple[str, ...] = ()
    config: tuple[DeviceConfig, ...] = ()
    extended_resource: str = ""
    """Plain requests of this resource are claims of the class."""
    created: float = 0.0

    @property
    def charged_as(self) -> str:
        """The resource name under which quotas count claims of this class."""
        return self.extended_resource or f"deviceclass.resource.kubernetes.io/{self.name}"


class AllocationMode(Enum):
    """How many devices a request wants."""

    EXACT_COUNT = "ExactCount"
    ALL = "All"
    UNKNOWN = ""


class Selectors(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """What chooses devices: the selectors of a class, then those of a request. All must match.

    An empty expression stands for a kind of selector that a later Kubernetes may add.
    """

    device_class: str
    expressions: tuple[str, ...] = ()


class Selected(msgspec.Struct, frozen=True):
    """The devices that selectors match; evaluated outside."""

    devices: frozenset[DeviceId] = frozenset()
    faulty: Mapping[DeviceId, str] = {}
    """Devices on which an expression has no value, with its place and the error. A search that meets one of them ends:
    a missing attribute is an error, not a device that does not match."""
    error: str = ""
    """What is wrong with an expression on every device, such as its syntax."""


class DevicesWanted(msgspec.Struct, frozen=True):
    """Devices of one class: an exact request, or one of several alternatives."""

    name: str
    selectors: Selectors
    mode: AllocationMode = AllocationMode.EXACT_COUNT
    count: int = 1
    admin: bool | None = None
    """Access for administration: also to devices in use. `None`: not stated."""
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: Amounts | None = None
    """The amounts of capacities that it wants from each device."""

    @property
    def device_class(self) -> str:
        return self.selectors.device_class


class DeviceRequest(msgspec.Struct, frozen=True):
    """A request: either exactly some devices, or the first of several alternatives that is possible."""

    name: str
    exactly: DevicesWanted | None = None
    first_available: tuple[DevicesWanted, ...] = ()

    def full_name(self, needs: DevicesWanted) -> str:
        """How constraints, configurations and results name what this request wants."""
        return f"{self.name}/{needs.name}" if self.first_available else self.name


class DeviceConstraint(msgspec.Struct, frozen=True):
    """Devices of some requests have one value of an attribute, or all have different ones."""

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


class AllocatedDevice(msgspec.Struct, frozen=True):
    """One device of an allocation."""

    request: str
    device: DeviceId
    admin: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share: bool = False
    """A share of the device; the writer names it, since the name is random."""
    consumed: Amounts = {}


class AllocatedConfig(msgspec.Struct, frozen=True):
    parameters: Parameters | None
    of_class: bool
    """From the class of the device, not from the claim."""
    requests: tuple[str, ...] = ()


class Allocation(msgspec.Struct, frozen=True):
    """What was allocated to a claim, and the nodes that can use it."""

    results: tuple[AllocatedDevice, ...] = ()
    config: tuple[AllocatedConfig, ...] = ()
    nodes: tuple[NodeTerm, ...] | None = None
    """`None`: all nodes."""


class Consumer(msgspec.Struct, frozen=True, order=True):
    """Something that a claim is reserved for, usually a pod."""

    uid: str
    name: str = ""
    resource: str = "pods"
    api_group: str = ""


class ResourceClaim(msgspec.Struct, frozen=True):
    """A ResourceClaim."""

    namespace: str
    name: str
    uid: str = ""
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfig, ...] = ()
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"
