"""How much of a shared device a request consumes: the arithmetic of consumable capacity.

Every capacity of the device counts, also one that the request does not name. The amounts follow the policy of the
capacity; a request that no allowed amount can satisfy does not fit. Amounts that Kubernetes refuses to compute with are
`CapacityError`, so that Maar never allocates where Kubernetes' API would not.
"""

from __future__ import annotations

from collections.abc import Mapping

from maar.model.devices.device import NANO, Amounts, Device, DeviceCapacity, Range

LARGEST = 2**63 - 1
"""Whole units that Kubernetes rounds to steps."""


class CapacityError(ValueError):
    """An amount that cannot be computed with; the text says why."""


def consumption(device: Device, wanted: Amounts | None, *, fractions: bool = False) -> dict[str, int] | None:
    """What one share of the device takes of each capacity; `None` if a policy forbids it or a capacity is missing.

    `fractions`: steps may be finer than whole units.
    """
    if wanted and not wanted.keys() <= device.capacity.keys():
        return None
    unit = 1 if fractions else NANO
    taken: dict[str, int] = {}
    for name, capacity in device.capacity.items():
        asked = wanted.get(name) if wanted else None
        try:
            amount = _consumed(asked, capacity, unit)
            if amount < 0:
                raise CapacityError("the amount is negative")
            allowed = _allowed(amount, capacity, unit)
        except CapacityError as error:
            raise CapacityError(f"device `{device.id}`: capacity `{name}`: {error}") from None
        if not allowed:
            return None
        taken[name] = amount
    return taken


def fits(device: Device, taken: Amounts, used: Mapping[str, int]) -> bool:
    """Whether a share fits beside what others use."""
    return all(used.get(name, 0) + amount <= device.capacity[name].amount for name, amount in taken.items())


def _consumed(asked: int | None, capacity: DeviceCapacity, unit: int) -> int:
    policy = capacity.policy
    if asked is None:
        return capacity.amount if policy is None or policy.default is None else policy.default
    if policy is None:
        return asked
    if policy.range is not None:
        # The default may lie below the range; asked for, it stays what it is, unless there are steps.
        if asked == policy.default and policy.range.step is None:
            return asked
        return _in_steps(asked, policy.range, unit)
    return next((value for value in policy.values if asked <= value), asked)


def _in_steps(asked: int, allowed: Range, unit: int) -> int:
    """The smallest amount of a range that is at least what was asked."""
    if asked < allowed.least:
        return allowed.least
    if allowed.step is None:
        return asked
    least, step = _whole(allowed.least, unit), _step(allowed.step, unit)
    return (least + -((least - _whole(asked, unit)) // step) * step) * unit


def _allowed(amount: int, capacity: DeviceCapacity, unit: int) -> bool:
    policy = capacity.policy
    if policy is None or amount == policy.default:
        return True
    if (allowed := policy.range) is not None:
        if allowed.most is not None and amount > allowed.most:
            return False
        if allowed.step is None:
            return True
        return (_whole(amount, unit) - _whole(allowed.least, unit)) % _step(allowed.step, unit) == 0
    return not policy.values or amount in policy.values


def _step(step: int, unit: int) -> int:
    if step <= 0:
        raise CapacityError("its step is not positive")
    return _whole(step, unit)


def _whole(amount: int, unit: int) -> int:
    """An amount in units, rounded up."""
    whole = -(-amount // unit)
    if whole > LARGEST * NANO // unit:
        raise CapacityError("the requested amount cannot be rounded to steps: larger than 2^63-1")
    return whole
