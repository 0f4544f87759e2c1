"""Parses values of annotations: durations, times, whole numbers, booleans.

Annotations are free text, so every parser may raise `ValueError`; the caller makes it a reason on the job, after the
name of the annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

import msgspec

from maar.kube.wire.base import Time
from maar.model.durations import duration, parse_duration
from maar.model.jobs import OnHold


def runtime(text: str) -> float:
    """A run time in seconds, from a Go duration or a plain number of seconds."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 11 else duration(text)


def grace(text: str) -> float:
    """A duration such as `90s`; negative (`-1`, `-1s`): for ever, which is -1.

    >>> grace("2m"), grace("-1")
    (120.0, -1.0)
    """
    seconds = parse_duration(text.strip().removeprefix("-"))
    return -1.0 if text.strip().startswith("-") else seconds


def promise(text: str) -> float | None:
    """A promised run time in seconds; `None` if it promises nothing."""
    seconds = runtime(text.removeprefix("-"))
    return None if text.startswith("-") else kept(seconds)


def kept(promised: float | None) -> float | None:
    """A promise that can be kept: zero and less promise nothing, or work that never ends would pass every lock."""
    return promised if promised is not None and promised > 0 else None


@lru_cache(maxsize=4096)
def moment(text: str) -> float:
    """An RFC 3339 time in Unix seconds."""
    try:
        return msgspec.convert(text, Time).timestamp()
    except (msgspec.ValidationError, OverflowError) as error:
        raise ValueError(f"not a time: `{text}` (expected e.g. `2030-01-31T12:00:00Z`)") from error


def seconds(time: datetime | None, missing: float = 0.0) -> float:
    """A decoded time in Unix seconds; `missing` for a missing time."""
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
    """A boolean, in the spellings that Go's `strconv.ParseBool` accepts."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise ValueError(f"expected `true` or `false`, got `{text}`")


def on_hold(text: str) -> OnHold:
    """Whether a job is held: `true`, `false`, or `stop`."""
    if text == "stop":
        return OnHold.STOP
    try:
        return OnHold.START if yes(text) else OnHold.NO
    except ValueError:
        raise ValueError(f"expected `true`, `stop` or `false`, got `{text}`") from None


def first(keys: tuple[str, ...], *maps: Mapping[str, str]) -> tuple[str, str] | None:
    """The first of `keys` with a nonempty value in the first of `maps` that has one, with the value."""
    for labels in maps:
        if labels:
            for key in keys:
                if value := labels.get(key):
                    return key, value
    return None
