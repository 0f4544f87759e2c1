"""Hours of the day in which something is open, such as `22:00-06:00`, in a time zone."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

_HOURS = re.compile(r"\s*(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})\s*", re.ASCII)
DAY = 24 * 60


class Hours(NamedTuple):
    """From a minute of the day until another. If it is not later, it is on the next day: equal minutes are a day."""

    begin: int
    end: int


class OpeningHours(NamedTuple):
    """Whether the hours are open at a time, and when that changes; `None`: never."""

    is_open: bool
    until: float | None


def parse_hours(text: str) -> Hours:
    """The hours of a text.

    >>> parse_hours("22:00-6:30")
    Hours(begin=1320, end=390)
    """
    found = _HOURS.fullmatch(text)
    if found is None:
        raise ValueError(f"expected hours such as `10:00-21:00`, got `{text}`")
    hour, minute, last_hour, last_minute = map(int, found.groups())
    if max(hour, last_hour) > 23 or max(minute, last_minute) > 59:
        raise ValueError(f"expected times from `00:00` to `23:59`, got `{text}`")
    return Hours(hour * 60 + minute, last_hour * 60 + last_minute)


def parse_zone(name: str) -> ZoneInfo:
    """A time zone by its name, such as `UTC` or `Europe/Berlin`."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a name, a directory
        raise ValueError(f"unknown time zone: `{name}` (expected e.g. `UTC`, `Europe/Berlin`)") from None


def opening(hours: Hours, now: float, zone: tzinfo) -> OpeningHours:
    """Whether the hours are open at a Unix time. The end does not belong to them."""
    if hours.begin == hours.end:
        return OpeningHours(True, None)
    today = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    begins = []
    for days in (-1, 0, 1, 2):
        begin = _at(today, days, hours.begin)
        end = _at(today, days + (hours.end <= hours.begin), hours.end)
        if begin <= now < end:
            return OpeningHours(True, end)
        begins.append(begin)
    return OpeningHours(False, min(begin for begin in begins if begin > now))


def clock(now: float, zone: tzinfo) -> str:
    """The time of day and its zone, for messages."""
    return f"{datetime.fromtimestamp(now, zone):%H:%M} ({zone})"


def _at(today: datetime, days: int, minute: int) -> float:
    """The Unix time of a minute of a day, on the clock of the time zone."""
    return (today + timedelta(days=days)).replace(hour=minute // 60, minute=minute % 60).timestamp()
