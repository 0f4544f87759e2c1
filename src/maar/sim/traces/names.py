"""Pads numeric job names: ties are broken by name, and the order of names must be that of the file."""

from __future__ import annotations

from collections.abc import Sequence


def padded(names: Sequence[str]) -> list[str]:
    """Numeric names padded with zeros, so that they sort as numbers; other names unchanged.

    >>> padded(["2", "10"]), padded(["a2", "10"])
    (['02', '10'], ['a2', '10'])
    """
    width = max(map(len, names), default=0)
    if not all(name.isascii() and name.isdecimal() for name in names):
        return list(names)
    return [name.zfill(width) for name in names]
