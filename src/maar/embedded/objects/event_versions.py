"""The two APIs for events, `v1` and `events.k8s.io/v1`. They share one table and name some fields differently."""

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
    """Convert an event of `events.k8s.io/v1` to the stored form."""
    stored = {NEW_TO_CORE.get(name, name): value for name, value in event.items()}
    if "reportingInstance" not in stored:
        stored["reportingInstance"] = ""
    return stored


def from_core_event(event: Obj) -> Obj:
    """Convert a stored event to `events.k8s.io/v1`."""
    return {CORE_TO_NEW.get(name, name): value for name, value in event.items()}
