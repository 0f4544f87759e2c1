"""Values inside annotations: durations, times, whole numbers, yes and no.

Annotations are free text, so everything here may fail; whoever calls turns the `ValueError` into a reason on the job,
with the annotation's name before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

import msgspec

from maar.kube.wire import Time

_UNIT = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(f"(?:{_PART})+", re.ASCII)
_LONGEST = 2**63 / 1e9
"""Go's longest duration, about 292 years."""


@lru_cache(maxsize=4096)
def duration(text: str) -> float:
    """Seconds of a Go duration such as `10m` or `1h30m`; not negative.

    >>> duration("1h30m")
    5400.0
    """
    if text == "0":
        return 0.0
    if not _DURATION.fullmatch(text):
        raise ValueError(f"not a duration: `{text}` (expected e.g. `90s`, `10m`, `1h30m`)")
    seconds = sum(float(number) * _UNIT[unit] for number, unit in re.findall(_PART, text, re.ASCII))
    if seconds >= _LONGEST:
        raise ValueError(f"not a duration: `{text}` is longer than 292 years")
    return seconds


def runtime(text: str) -> float:
    """Seconds of a run time: a Go duration, or a plain number of seconds."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 11 else duration(text)


@lru_cache(maxsize=4096)
def moment(text: str) -> float:
    """Unix seconds of an RFC 3339 time."""
    try:
        return msgspec.convert(text, Time).timestamp()
    except (msgspec.ValidationError, OverflowError) as error:
        raise ValueError(f"not a time: `{text}` (expected e.g. `2030-01-31T12:00:00Z`)") from error


def seconds(time: datetime | None, missing: float = 0.0) -> float:
    """Unix seconds of a time from the wire."""
    return missing if time is None else time.timestamp()


def whole(text: str, least: int = 0) -> int:
    """A whole number of at least `least`."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number < 2**31:
        raise ValueError(f"expected a whole number of at least {least}, got `{text}`")
    return number


def yes(text: str) -> bool:
    """A boolean, in the spellings that Go's strconv.ParseBool takes."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise ValueError(f"expected `true` or `false`, got `{text}`")


def first(keys: tuple[str, ...], *maps: Mapping[str, str]) -> tuple[str, str] | None:
    """The first of `keys` in the first of `maps` that has a text for it, with that text."""
    for labels in maps:
        if labels:
            for key in keys:
                if value := labels.get(key):
                    return key, value
    return None
