"""Values inside annotations: durations, times, whole numbers, yes and no.

Annotations are free text, so everything here may fail; whoever calls turns the `ValueError` into a reason on the job,
with the annotation's name before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

import msgspec

from maar.kube.wire.base import Time
from maar.model.durations import duration


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
