"""Thin structs for dynamic resource allocation, with the fields of Kubernetes' resource.k8s.io/v1.

DeviceTaintRule has the same fields in v1beta2. See `maar.kube.wire.base` for the rules that all structs follow.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from maar.kube.wire.base import Long, Object, Quantities, Quantity, Wire
from maar.kube.wire.pods import NodeSelector


class DeviceTaint(Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceToleration(Wire, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: Long | None = None


# What drivers publish


class DeviceAttribute(Wire, frozen=True):
    """One value, or a list of values of one type."""

    int_value: Long | None = field(default=None, name="int")
    bool_value: bool | None = field(default=None, name="bool")
    string_value: str | None = field(default=None, name="string")
    version_value: str | None = field(default=None, name="version")
    int_values: tuple[Long, ...] | None = field(default=None, name="ints")
    bool_values: tuple[bool, ...] | None = field(default=None, name="bools")
    string_values: tuple[str, ...] | None = field(default=None, name="strings")
    version_values: tuple[str, ...] | None = field(default=None, name="versions")


class ValidRange(Wire, frozen=True):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Wire, frozen=True):
    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: ValidRange | None = None


class DeviceCapacity(Wire, frozen=True):
    value: Quantity
    request_policy: CapacityRequestPolicy | None = None


class Counter(Wire, frozen=True):
    value: Quantity


class CounterSet(Wire, frozen=True):
    name: str
    counters: dict[str, Counter] = field(default_factory=dict)


class CounterConsumption(Wire, frozen=True):
    counter_set: str
    counters: dict[str, Counter] = field(default_factory=dict)
    compatibility_groups: tuple[str, ...] = ()
    """Which partitions can be used together: alpha, and not understood by Maar."""


class SliceDevice(Wire, frozen=True):
    name: str
    attributes: dict[str, DeviceAttribute] = field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = field(default_factory=dict)
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(Wire, frozen=True):
    name: str
    generation: Long = 0
    resource_slice_count: Long = 0


class SliceSpec(Wire, frozen=True):
    driver: str
    pool: ResourcePool
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[SliceDevice, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Object, frozen=True):
    spec: SliceSpec


class TaintSelector(Wire, frozen=True):
    """Devices by driver, pool and name; a missing one matches all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class TaintRuleSpec(Wire, frozen=True):
    taint: DeviceTaint
    device_selector: TaintSelector = TaintSelector()


class DeviceTaintRule(Object, frozen=True):
    """A taint that an admin adds to devices."""

    spec: TaintRuleSpec


# What pods ask for


class CelSelector(Wire, frozen=True):
    expression: str = ""


class DeviceSelector(Wire, frozen=True):
    cel: CelSelector = CelSelector()


class OpaqueConfiguration(Wire, frozen=True):
    driver: str = ""
    parameters: Any = None


class DeviceConfiguration(Wire, frozen=True):
    """A configuration of a class or of a claim; that of a class is for all requests."""

    opaque: OpaqueConfiguration | None = None
    requests: tuple[str, ...] = ()


class ClassSpec(Wire, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()
    extended_resource_name: str = ""


class DeviceClass(Object, frozen=True):
    spec: ClassSpec = ClassSpec()


class CapacityRequirements(Wire, frozen=True):
    requests: Quantities = field(default_factory=dict)


class ExactRequest(Wire, frozen=True):
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: Long = 1
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class SubRequest(ExactRequest, frozen=True, kw_only=True):
    """One of several alternatives; none of them has access for administration."""

    name: str


class DeviceRequest(Wire, frozen=True):
    name: str
    exactly: ExactRequest | None = None
    first_available: tuple[SubRequest, ...] = ()


class DeviceConstraint(Wire, frozen=True):
    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


class DeviceClaim(Wire, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()


class ResourceClaimSpec(Wire, frozen=True):
    devices: DeviceClaim = DeviceClaim()


# What was allocated


class AllocatedDevice(Wire, frozen=True):
    """One device of an allocation; the request is `main` or `main/alternative`."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: Quantities = field(default_factory=dict)


class AllocatedConfiguration(DeviceConfiguration, frozen=True):
    source: str = ""
    """`FromClass` or `FromClaim`."""


class AllocatedDevices(Wire, frozen=True):
    results: tuple[AllocatedDevice, ...] = ()
    config: tuple[AllocatedConfiguration, ...] = ()


class AllocationResult(Wire, frozen=True):
    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None


class ConsumerReference(Wire, frozen=True):
    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""


class ResourceClaimStatus(Wire, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()


class ResourceClaim(Object, frozen=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ClaimTemplateSpec(Wire, frozen=True):
    """The spec of the claims that are made from a template."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True):
    spec: ClaimTemplateSpec = ClaimTemplateSpec()
