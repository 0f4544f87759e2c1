"""What Maar leaves on objects while it works, and must take back when no job waits any more."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from tests.support.faults.gangs import ENDED
from tests.support.faults.writes import Json

LOCKED = "maar.dev/locked-for"
HOLDS = "maar.dev/holds"
INTENTS = "maar.dev/intents"
EVICTIONS = "maar.dev/evictions"
STATE = "kube-system/maar-state"
"""The ConfigMap with the election."""


def left_over(objects: Mapping[str, Mapping[str, Json]]) -> list[str]:
    """Locks, holds, nominations, elections and intents on these objects, by resource and key."""
    found = []
    for resource, things in objects.items():
        for key, thing in things.items():
            notes = thing["metadata"].get("annotations") or {}
            if resource == "nodes" and LOCKED in notes:
                found.append(f"lock on {resource} {key}: {notes[LOCKED]}")
            if HOLDS in notes:
                found.append(f"hold on {resource} {key}: {notes[HOLDS]}")
            if resource == "leases" and not _is_empty(notes.get(INTENTS, "")):
                found.append(f"intents on lease {key}: {notes[INTENTS][:200]}")
            if resource == "leases" and EVICTIONS in notes:
                found.append(f"decided evictions on lease {key}: {notes[EVICTIONS][:200]}")
            if resource == "configmaps" and key == STATE:
                found += _elections(thing)
            if resource == "pods":
                found += _nomination(key, thing)
    return sorted(found)


def _nomination(key: str, pod: Json) -> list[str]:
    status = pod.get("status") or {}
    node = status.get("nominatedNodeName")
    waits = not pod["spec"].get("nodeName") and status.get("phase") not in ENDED
    return [f"nomination of {key}: {node}"] if node and waits else []


def _elections(config_map: Json) -> list[str]:
    entries = {name: msgspec.json.decode(text) for name, text in (config_map.get("data") or {}).items() if text}
    states = {name: state for name, state in entries.items() if isinstance(state, dict)}  # facts are a list
    return [f"election of {name}: {state['elect']}" for name, state in states.items() if state.get("elect")]


def _is_empty(text: str) -> bool:
    """Whether a text states nothing: no value, or an empty list or object."""
    try:
        return not text.strip() or not msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
