"""DeviceClasses, ResourceClaims and their templates to the model.

An amount that is no quantity is a `FieldError`: the caller makes it the reason of the pods that need the claim.
"""

from __future__ import annotations

import msgspec

from maar.kube.read.claims.slices import amounts, node_terms
from maar.kube.wire import devices as wire
from maar.kube.wire.values import seconds
from maar.model.devices.claim import (
    AllocatedConfig,
    AllocatedDevice,
    Allocation,
    AllocationMode,
    Consumer,
    DeviceClass,
    DeviceConfig,
    DeviceConstraint,
    DeviceRequest,
    DevicesWanted,
    Parameters,
    ResourceClaim,
    Selectors,
)
from maar.model.devices.device import DeviceId, DeviceToleration


def device_class(found: wire.DeviceClass) -> DeviceClass:
    return DeviceClass(
        name=found.name,
        selectors=_expressions(found.spec.selectors),
        config=tuple(map(_config, found.spec.config)),
        extended_resource=found.spec.extended_resource_name,
        created=seconds(found.metadata.creation_timestamp),
    )


def claim(found: wire.ResourceClaim) -> ResourceClaim:
    allocation = found.status.allocation
    return ResourceClaim(
        namespace=found.namespace,
        name=found.name,
        uid=found.metadata.uid,
        requests=requests(found.spec),
        constraints=constraints(found.spec),
        config=tuple(map(_config, found.spec.devices.config)),
        allocation=None if allocation is None else _allocation(allocation),
        reserved_for=tuple(Consumer(c.uid, c.name, c.resource, c.api_group) for c in found.status.reserved_for),
    )


def from_template(found: wire.ResourceClaimTemplate, name: str) -> ResourceClaim:
    """The claim that will be made from a template for a pod, under a name that tells what it is for."""
    return ResourceClaim(
        namespace=found.namespace,
        name=name,
        requests=requests(found.spec.spec),
        constraints=constraints(found.spec.spec),
        config=tuple(map(_config, found.spec.spec.devices.config)),
    )


def requests(spec: wire.ResourceClaimSpec) -> tuple[DeviceRequest, ...]:
    """The requests of a claim, in their order."""
    found = []
    for i, one in enumerate(spec.devices.requests):
        at = f"spec.devices.requests[{i}]"
        found.append(
            DeviceRequest(
                name=one.name,
                exactly=None if one.exactly is None else _needs(one.name, one.exactly, f"{at}.exactly"),
                first_available=tuple(
                    _needs(sub.name, sub, f"{at}.firstAvailable[{j}]") for j, sub in enumerate(one.first_available)
                ),
            )
        )
    return tuple(found)


def constraints(spec: wire.ResourceClaimSpec) -> tuple[DeviceConstraint, ...]:
    return tuple(
        DeviceConstraint(c.requests, c.match_attribute, c.distinct_attribute) for c in spec.devices.constraints
    )


def _needs(name: str, found: wire.ExactRequest, at: str) -> DevicesWanted:
    capacity = found.capacity
    return DevicesWanted(
        name=name,
        selectors=Selectors(found.device_class_name, _expressions(found.selectors)),
        mode=MODES.get(found.allocation_mode, AllocationMode.UNKNOWN),
        count=found.count,
        admin=None if isinstance(found, wire.SubRequest) else found.admin_access,
        tolerations=tuple(map(_toleration, found.tolerations)),
        capacity=None if capacity is None else amounts(capacity.requests, f"{at}.capacity.requests"),
    )


MODES = {mode.value: mode for mode in (AllocationMode.EXACT_COUNT, AllocationMode.ALL)}


def _expressions(found: tuple[wire.DeviceSelector, ...]) -> tuple[str, ...]:
    return tuple(one.cel.expression for one in found)


def _toleration(found: wire.DeviceToleration) -> DeviceToleration:
    return DeviceToleration(found.key, found.operator, found.value, found.effect, found.toleration_seconds)


def _config(found: wire.DeviceConfiguration) -> DeviceConfig:
    return DeviceConfig(_parameters(found), found.requests)


def _parameters(found: wire.DeviceConfiguration) -> Parameters | None:
    opaque = found.opaque
    if opaque is None:
        return None
    return Parameters(opaque.driver, msgspec.json.encode(opaque.parameters, order="sorted"))


def _allocation(found: wire.AllocationResult) -> Allocation:
    return Allocation(
        results=tuple(map(_result, found.devices.results)),
        config=tuple(
            AllocatedConfig(_parameters(c), c.source == "FromClass", c.requests) for c in found.devices.config
        ),
        nodes=node_terms(found.node_selector),
    )


def _result(found: wire.AllocatedDevice) -> AllocatedDevice:
    return AllocatedDevice(
        request=found.request,
        device=DeviceId(found.driver, found.pool, found.device),
        admin=bool(found.admin_access),
        tolerations=tuple(map(_toleration, found.tolerations)),
        binding_conditions=found.binding_conditions,
        binding_failure_conditions=found.binding_failure_conditions,
        share=found.share_id is not None,
        consumed=amounts(found.consumed_capacity, "status.allocation.devices.results.consumedCapacity"),
    )
