"""Constraints during a search: devices of some requests have one value of an attribute, or all different ones.

Both are monotone: if a device does not go with those chosen so far, it goes with no larger choice either.
"""

from __future__ import annotations

from maar.model.devices.claim import DeviceConstraint
from maar.model.devices.device import Attribute, Device


class Chosen:
    """One constraint, and the values of the devices chosen so far, in the order in which they were chosen."""

    __slots__ = ("_alike", "_different", "_name", "_requests", "_values")

    def __init__(self, constraint: DeviceConstraint) -> None:
        self._alike = bool(constraint.match_attribute)
        self._name = constraint.match_attribute or constraint.distinct_attribute
        self._requests = frozenset(constraint.requests)
        self._values: list[Attribute] = []
        self._different: set[Attribute] = set()
        """The same, where all differ."""

    def concerns(self, request: str, full_name: str) -> bool:
        """Whether it is about devices of a request or of one of its alternatives."""
        return not self._requests or request in self._requests or full_name in self._requests

    def add(self, device: Device) -> bool:
        """Add a device if it goes with those chosen so far. A device without the attribute never does."""
        value = device.attribute(self._name)
        if value is None:
            return False
        if self._values:
            if not value.is_single:
                return False
            if value != self._values[0] if self._alike else value in self._different:
                return False
        self._values.append(value)
        if not self._alike:
            self._different.add(value)
        return True

    def remove(self) -> None:
        """Remove the device that was added last."""
        self._different.discard(self._values.pop())
