"""What Maar leaves on objects while it works, and must take back when no job waits any more."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from tests.support.faults.gangs import ENDED
from tests.support.faults.writes import Json

LOCKS = ("maar.dev/locked-for", "maar.dev/locked-since")
ON_JOBS = {"maar.dev/holds": "hold", "maar.dev/elected-since": "election"}
"""Annotations on pods and on the objects of jobs."""
STATE = "kube-system/maar-state"
"""The ConfigMap with elections and the last resize of each pool."""
RESIZES = ("resizes",)
"""The entries of the ConfigMap that may stay."""


def left_over(objects: Mapping[str, Mapping[str, Json]]) -> list[str]:
    """Locks, holds, nominations, elections and intents on these objects, by resource and key."""
    found = []
    for resource, things in objects.items():
        for key, thing in things.items():
            notes = thing["metadata"].get("annotations") or {}
            if resource == "nodes":
                found += [f"lock on node {key}: {name}: {notes[name]}" for name in LOCKS if name in notes]
            elif resource == "configmaps":
                found += _elections(key, thing)
            elif resource == "leases":
                found += _intents(key, notes)
            else:
                found += [f"{ON_JOBS[name]} on {resource} {key}: {notes[name]}" for name in ON_JOBS if name in notes]
            if resource == "pods":
                found += _nomination(key, thing)
    return sorted(found)


def _nomination(key: str, pod: Json) -> list[str]:
    status = pod.get("status") or {}
    node = status.get("nominatedNodeName")
    waits = not pod["spec"].get("nodeName") and status.get("phase") not in ENDED
    return [f"nomination of {key}: {node}"] if node and waits else []


def _elections(key: str, config_map: Json) -> list[str]:
    if key != STATE:
        return []
    entries = (config_map.get("data") or {}).items()
    return [f"{STATE}: {name}: {text}" for name, text in entries if name not in RESIZES and not _is_empty(text)]


def _intents(key: str, notes: Mapping[str, str]) -> list[str]:
    return [
        f"intent on lease {key}: {name}: {text[:200]}"
        for name, text in notes.items()
        if name.startswith("maar.dev/") and not _is_empty(text)
    ]


def _is_empty(text: str) -> bool:
    """Whether a text states nothing: no value, or an empty list or object."""
    try:
        return not text.strip() or not msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
