"""Kubernetes' quantities and the requests of pods, in the witness' own words: not Maar's reader."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

FACTORS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal("1e3"), "M": Decimal("1e6"), "G": Decimal("1e9"), "T": Decimal("1e12"), "P": Decimal("1e15"),
    "E": Decimal("1e18"),
    **{f"{prefix}i": Decimal(1024) ** power for power, prefix in enumerate("KMGTPE", 1)},
}  # fmt: skip
QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]*)([eE][+-]?[0-9]+)?([numkKMGTPE]?i?)")

Amounts = Mapping[str, Decimal]


def amount(text: str | int | float) -> Decimal:
    """The value of a quantity."""
    found = QUANTITY.fullmatch(str(text))
    if found is None:
        raise ValueError(f"not a quantity: {str(text)[:50]}")
    number, exponent, suffix = found.groups()
    return Decimal(number + (exponent or "")) * FACTORS[suffix]


def requests(spec: Mapping[str, Any]) -> dict[str, Decimal]:
    """What a pod takes from its node: the sum of its containers or its largest init container, and one pod."""
    most: dict[str, Decimal] = {}
    for container in spec.get("containers") or ():
        for name, value in _of(container).items():
            most[name] = most.get(name, Decimal(0)) + value
    for container in spec.get("initContainers") or ():
        for name, value in _of(container).items():
            most[name] = max(most.get(name, Decimal(0)), value)
    for name, value in (spec.get("overhead") or {}).items():
        most[name] = most.get(name, Decimal(0)) + amount(value)
    return {**most, "pods": Decimal(1)}


def _of(container: Mapping[str, Any]) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    both = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amount(value) for name, value in both.items()}
