"""Amounts of resources: the base of the node table, shapes and queues.

Kubernetes writes quantities as text (`100m`, `1.5`, `2Gi`). They are parsed exactly and become whole numbers once, when
objects are read: CPU in milli, everything else in units. A request rounds up and an allocatable rounds down, so
rounding can never over-commit a node. This module knows no nodes, pods or queues.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL = "ephemeral-storage"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

Amounts = Mapping[str, int]
"""Resource name to whole units (CPU in milli)."""

LARGEST = 2**60
"""Amounts saturate here, so that sums of a few of them fit in int64. No real node is near it."""

LARGEST_NODE = 2**46
LARGEST_POD = 2**47
"""What a node has and what a pod requests saturate here: 64 TiB of memory. So a saturated request never fits, and the
requests of 65,000 pods that anyone may create with the name of one node do not overflow int64."""

UNLIMITED = 2**61
"""More than any amount: stands for a missing limit in integer arithmetic."""

_SUFFIX = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,4})|([numkMGTPE]|[KMGTPE]i)?)")


LONGEST = 64
"""Characters of a quantity. The API server accepts any number of digits; Python refuses to convert more than 4,300, and
a few thousand already cost milliseconds each. The longest useful quantity has about 30."""


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


@lru_cache(maxsize=65536)
def _parse(text: str) -> Fraction:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(f"not a quantity: `{text}` (expected e.g. `100m`, `1.5`, `2Gi`, `1e3`)")
    number, exponent, suffix = match.groups()
    if exponent is not None:
        return Fraction(number) * Fraction(10) ** int(exponent)
    return Fraction(number) * _SUFFIX[suffix or ""]


def parse_quantity(value: str | int | float) -> Fraction:
    """The exact value of a Kubernetes quantity.

    >>> parse_quantity("100m"), parse_quantity("2Gi"), parse_quantity("1e3")
    (Fraction(1, 10), Fraction(2147483648, 1), Fraction(1000, 1))
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QuantityError(f"not a quantity: `{value}`")
    if isinstance(value, int) and value.bit_length() > 4 * LONGEST:
        raise QuantityError(f"not a quantity: more than {LONGEST} digits")
    # `repr` keeps what the author wrote in YAML: 0.1 stays one tenth, which the binary float is not.
    text = value.strip() if isinstance(value, str) else repr(value)
    if len(text) > LONGEST:
        raise QuantityError(f"not a quantity: `{text[:20]}...` has {len(text)} characters, expected at most {LONGEST}")
    return _parse(text)


def units(name: str, value: str | int | float, *, up: bool) -> int:
    """A quantity of the resource `name` in whole units: rounded `up` for requests, down for allocatable."""
    if isinstance(value, str) and len(value) > LONGEST:
        value = value.strip()  # what is kept is short
    return _units(name == CPU, value, up)


@lru_cache(maxsize=65536)
def _units(milli: bool, value: str | int | float, up: bool) -> int:
    exact = parse_quantity(value) * (1000 if milli else 1)
    whole = -((-exact.numerator) // exact.denominator) if up else exact.numerator // exact.denominator
    return max(-LARGEST, min(LARGEST, whole))


def counted_as(name: str) -> str:
    """The resource whose units a name in a quota has: `limits.cpu` is counted like `cpu`."""
    return name.removeprefix("requests.").removeprefix("limits.")


def requests(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """Quantities as amounts, rounded up: for requests of pods and limits of queues."""
    return {name: units(name, value, up=True) for name, value in quantities.items()}


def allocatable(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """Quantities as amounts, rounded down: for the allocatable of nodes."""
    return {name: units(name, value, up=False) for name, value in quantities.items()}


def is_accelerator(name: str) -> bool:
    """Whether a resource counts as a GPU where lost work is measured in GPU seconds."""
    vendor, _, device = name.partition("/")
    if not device or vendor.endswith("kubernetes.io"):
        return False
    return device.startswith(("gpu", "mig-", "tpu", "npu", "gaudi", "neuron", "Ascend", "dcu", "xpu", "mlu"))


def in_words(name: str, amount: int) -> str:
    """An amount for people: `1500m` CPU is `1.5`, memory is in the largest unit that is not larger than it."""
    if name == CPU:
        return f"{amount / 1000:g}"
    if name in (MEMORY, EPHEMERAL) or name.startswith("hugepages-"):
        for suffix, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if abs(amount) >= size:
                return f"{amount / size:.4g}{suffix}"
    return str(amount)


def quantity(name: str, amount: int) -> str:
    """An amount as Kubernetes writes it, exactly."""
    if name == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name in (MEMORY, EPHEMERAL) or name.startswith("hugepages-"):
        for suffix, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if amount and amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


MOST_STRANGE = 64
"""Resources that no node has and that get a column of their own. Tuned by hand: anyone may request any number of them,
and every column costs every node."""
REST = "other resources"


class Axes:
    """The resource names of one snapshot in a fixed order: one column of every resource table for each.

    Two snapshots of the same cluster have the same axes, whatever the order of the objects.
    """

    __slots__ = ("accelerators", "index", "names", "rest")

    def __init__(self, names: Iterable[str], strange: Iterable[str] = ()) -> None:
        """`strange` names are only requested: no node and no queue has them. Many of them share one column."""
        first = [CPU, MEMORY, PODS, EPHEMERAL]
        known = set(names).union(first)
        others = sorted(set(strange) - known)
        crowded = len(others) > MOST_STRANGE
        shown = [*others[:MOST_STRANGE], REST] if crowded else others
        self.names: tuple[str, ...] = (*first, *sorted({*known, *shown}.difference(first)))
        self.index: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self.rest: int | None = self.index[REST] if crowded else None
        self.accelerators: tuple[int, ...] = tuple(i for i, n in enumerate(self.names) if is_accelerator(n))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def pods(self) -> int:
        return self.index[PODS]

    def row(self, amounts: Amounts, missing: int = 0) -> list[int]:
        """Amounts as one row. Names outside the axes are left out, or count in the column of the rest."""
        row = [missing] * len(self.names)
        for name, amount in amounts.items():
            i = self.index.get(name, self.rest)
            if i is not None:
                row[i] = amount if i != self.rest or missing else max(row[i], amount)
        return row

    def amounts(self, row: Iterable[int]) -> dict[str, int]:
        """The non-zero amounts of a row, by name."""
        return {name: int(x) for name, x in zip(self.names, row, strict=True) if x}


_LAST = {CPU: 1, MEMORY: 2, EPHEMERAL: 3, PODS: 4}


def devices_first(names: Iterable[str]) -> list[str]:
    """Resources, devices first, then CPU and memory: jobs mostly wait for devices."""
    return sorted(names, key=lambda name: (_LAST.get(name, 0), name))


def scarce_first(axes: Axes, request: Ints) -> list[int]:
    """The requested dimensions in the same order."""
    return sorted(np.flatnonzero(request).tolist(), key=lambda d: (_LAST.get(axes.names[d], 0), axes.names[d]))


def total(rows: Ints) -> list[int]:
    """Column sums as Python integers, exact where int64 would overflow: high and low halves are summed separately."""
    if len(rows) == 0:
        return [0] * int(rows.shape[1])
    ones = np.ones(len(rows), dtype=np.int64)  # a product is three times as fast as a sum over few columns
    high = ones @ (rows >> 32)
    low = ones @ (rows & 0xFFFFFFFF)
    return [(int(h) << 32) + int(x) for h, x in zip(high, low, strict=True)]
