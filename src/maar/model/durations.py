"""Durations in configurations and annotations: Go's notation (`90s`, `1h30m`, `250ms`), plus days (`2d`)."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Annotated

import msgspec

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d)"
_DURATION = re.compile(f"(?:{_PART})+", re.ASCII)
LONGEST = 200
"""Characters of a duration or a number; tuned by hand. An annotation can have 256 kB of digits, and is read often."""
LONGEST_SHOWN = 40
"""Characters of a duration in a message; tuned by hand."""
_LONGEST = 2**63 / 1e9
"""Go's longest duration, about 292 years."""


def duration(text: str) -> float:
    """The seconds of a text with units.

    >>> duration("1h30m"), duration("250ms")
    (5400.0, 0.25)
    """
    if len(text) > LONGEST:
        raise ValueError(f"not a duration: `{text[:LONGEST_SHOWN]}...` has {len(text)} characters")
    return _duration(text)


@lru_cache(maxsize=4096)
def _duration(text: str) -> float:
    if text == "0":
        return 0.0
    if not _DURATION.fullmatch(text):
        raise ValueError(f"not a duration: `{text}` (expected e.g. `90s`, `10m`, `1h30m`)")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text, re.ASCII))
    if seconds >= _LONGEST:
        raise ValueError(f"not a duration: `{text}` is longer than 292 years")
    return seconds


def parse_duration(value: str | int | float) -> float:
    """The seconds of a text or number; a number without a unit is in seconds.

    >>> parse_duration("1h30m"), parse_duration(5)
    (5400.0, 5.0)
    """
    text = str(value).strip()
    try:
        seconds = float(text)
    except ValueError:
        return duration(text)
    text = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
    if seconds < 0:
        raise ValueError(f"not a duration: `{text}` (must not be negative)")
    if math.isnan(seconds):
        raise ValueError(f"not a duration: `{text}` (expected e.g. `90s`, `10m`, `1h30m`)")
    if seconds >= _LONGEST:
        raise ValueError(f"not a duration: `{text}` is longer than 292 years")
    return seconds


def written(value: str | float) -> str:
    """A duration of a file for a message: a number without a unit gets one.

    >>> written("1h30m"), written(300.0), written("5")
    ('1h30m', '300 s', '5 s')
    """
    try:
        return f"{float(value):g} s"
    except ValueError:
        return str(value)


READ = "read"
"""In the `extra` of a type: a function that raises `ValueError` for a value that means nothing."""

Duration = Annotated[str | float, msgspec.Meta(description="a duration such as `5m`", extra={READ: parse_duration})]
"""The type of an argument that is a duration: checked when the file is read."""
