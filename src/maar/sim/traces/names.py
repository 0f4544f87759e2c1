"""Names of jobs that are numbers: ties end in the order of names, which must be that of the file."""

from __future__ import annotations

from collections.abc import Sequence


def padded(names: Sequence[str]) -> list[str]:
    """Numbers with zeros before them, so that as text they have the same order; other names as they are.

    >>> padded(["2", "10"]), padded(["a2", "10"])
    (['02', '10'], ['a2', '10'])
    """
    width = max(map(len, names), default=0)
    if not all(name.isascii() and name.isdecimal() for name in names):
        return list(names)
    return [name.zfill(width) for name in names]
