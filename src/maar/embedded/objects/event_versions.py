"""The two APIs for events, `v1` and `events.k8s.io/v1`: one table, other names for the same fields."""

from __future__ import annotations

from maar.embedded.objects.errors import Obj

NEW_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
CORE_TO_NEW = {core: new for new, core in NEW_TO_CORE.items()}


def to_core_event(event: Obj) -> Obj:
    """An event of `events.k8s.io`, as it is stored."""
    stored = {NEW_TO_CORE.get(name, name): value for name, value in event.items()}
    if "reportingInstance" not in stored:
        stored["reportingInstance"] = ""
    return stored


def from_core_event(event: Obj) -> Obj:
    """A stored event, as `events.k8s.io` shows it."""
    return {CORE_TO_NEW.get(name, name): value for name, value in event.items()}
