"""ResourceSlices and DeviceTaintRules to the slices of the model.

A slice that Maar does not understand is left out. Then its pool is incomplete, and nothing is allocated from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from maar.kube.read.selectors import node_term
from maar.kube.wire import devices as wire
from maar.kube.wire.base import Quantity
from maar.kube.wire.errors import FieldError
from maar.kube.wire.pods import NodeSelector
from maar.model.devices.device import (
    NANO,
    Attribute,
    Consumption,
    Device,
    DeviceCapacity,
    DeviceId,
    DevicePlace,
    PoolId,
    PoolSlice,
    Range,
    RequestPolicy,
)
from maar.model.resources import QuantityError, parse_quantity
from maar.model.selectors import NodeTerm, Taint


def pool_slices(
    found: Iterable[wire.ResourceSlice], rules: Iterable[wire.DeviceTaintRule] = ()
) -> tuple[list[PoolSlice], list[str]]:
    """The slices, with the taints that rules add to their devices, and what is wrong with those that are left out."""
    ordered = sorted(rules, key=lambda rule: rule.name)
    slices, problems = [], []
    for one in found:
        try:
            slices.append(_slice(one, ordered))
        except FieldError as error:
            problems.append(f"resource slice `{one.name}`: {error}")
    return slices, problems


def _slice(found: wire.ResourceSlice, rules: list[wire.DeviceTaintRule]) -> PoolSlice:
    spec = found.spec
    pool = PoolId(spec.driver, spec.pool.name)
    ours = [rule for rule in rules if _is_about(rule.spec.device_selector, pool)]
    counters: dict[str, Mapping[str, int]] = {}
    duplicate = ""
    for i, one in enumerate(spec.shared_counters):
        duplicate = duplicate or (one.name if one.name in counters else "")
        counters[one.name] = _counters(one.counters, f"spec.sharedCounters[{i}].counters")
    return PoolSlice(
        name=found.name,
        pool=pool,
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        place=None if spec.per_device_node_selection else place(spec),
        devices=tuple(_device(pool, one, ours, f"spec.devices[{i}]") for i, one in enumerate(spec.devices)),
        counters=counters,
        duplicate_set=duplicate,
    )


def place(at: wire.SliceSpec | wire.SliceDevice) -> DevicePlace:
    """Where a slice or a device is; nowhere if it says so in a way that a later Kubernetes may add."""
    return DevicePlace(at.node_name, at.all_nodes, node_terms(at.node_selector))


def node_terms(selector: NodeSelector | None) -> tuple[NodeTerm, ...] | None:
    return None if selector is None else tuple(map(node_term, selector.node_selector_terms))


LARGEST = 10**36
"""Amounts are smaller than this; numbers with thousands of digits would cost time wherever they are used."""


def amount(value: Quantity, path: str) -> int:
    """A quantity in billionths; like Kubernetes, it rounds up what is finer."""
    try:
        exact = parse_quantity(value)
    except QuantityError as error:
        raise FieldError(path, str(error)) from None
    if abs(exact) >= LARGEST:
        raise FieldError(path, f"expected less than 1e36, got `{value}`")
    return _up(exact * NANO)


def amounts(quantities: Mapping[str, Quantity], path: str) -> dict[str, int]:
    return {name: amount(value, f"{path}.{name}") for name, value in quantities.items()}


def _up(exact: Fraction) -> int:
    return -(-exact.numerator // exact.denominator)


def _counters(found: Mapping[str, wire.Counter], path: str) -> dict[str, int]:
    return {name: amount(one.value, f"{path}.{name}.value") for name, one in found.items()}


def _device(pool: PoolId, found: wire.SliceDevice, rules: list[wire.DeviceTaintRule], path: str) -> Device:
    for i, one in enumerate(found.consumes_counters):
        if one.compatibility_groups:
            raise FieldError(f"{path}.consumesCounters[{i}].compatibilityGroups", "not supported")
    taints = [Taint(t.key, t.value, t.effect) for t in found.taints]
    for rule in rules:
        if rule.spec.device_selector.device in (None, found.name):
            taints.append(Taint(rule.spec.taint.key, rule.spec.taint.value, rule.spec.taint.effect))
    return Device(
        id=DeviceId(pool.driver, pool.pool, found.name),
        attributes={name: _attribute(one) for name, one in found.attributes.items()},
        capacity={name: _capacity(one, f"{path}.capacity.{name}") for name, one in found.capacity.items()},
        consumes=tuple(
            Consumption(one.counter_set, _counters(one.counters, f"{path}.consumesCounters[{i}].counters"))
            for i, one in enumerate(found.consumes_counters)
        ),
        taints=tuple(taints),
        place=place(found),
        shared=found.allow_multiple_allocations,
        binds_to_node=found.binds_to_node,
        binding_conditions=found.binding_conditions,
        binding_failure_conditions=found.binding_failure_conditions,
    )


def _is_about(selector: wire.TaintSelector, pool: PoolId) -> bool:
    return selector.driver in (None, pool.driver) and selector.pool in (None, pool.pool)


def _attribute(found: wire.DeviceAttribute) -> Attribute:
    if found.int_value is not None:
        return Attribute("int", found.int_value)
    if found.bool_value is not None:
        return Attribute("bool", found.bool_value)
    if found.string_value is not None:
        return Attribute("string", found.string_value)
    if found.version_value is not None:
        return Attribute("version", found.version_value)
    if found.int_values is not None:
        return Attribute("ints", found.int_values)
    if found.bool_values is not None:
        return Attribute("bools", found.bool_values)
    if found.string_values is not None:
        return Attribute("strings", found.string_values)
    if found.version_values is not None:
        return Attribute("versions", found.version_values)
    return Attribute("unsupported")


def _capacity(found: wire.DeviceCapacity, path: str) -> DeviceCapacity:
    policy = found.request_policy
    if policy is None:
        return DeviceCapacity(amount(found.value, f"{path}.value"))
    at = f"{path}.requestPolicy"
    allowed = policy.valid_range
    return DeviceCapacity(
        amount(found.value, f"{path}.value"),
        RequestPolicy(
            default=_optional(policy.default, f"{at}.default"),
            values=tuple(amount(v, f"{at}.validValues[{i}]") for i, v in enumerate(policy.valid_values)),
            range=None
            if allowed is None
            else Range(
                least=_optional(allowed.min, f"{at}.validRange.min") or 0,
                most=_optional(allowed.max, f"{at}.validRange.max"),
                step=_optional(allowed.step, f"{at}.validRange.step"),
            ),
        ),
    )


def _optional(value: Quantity | None, path: str) -> int | None:
    return None if value is None else amount(value, path)
