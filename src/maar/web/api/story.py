"""The story of a job: what happened to it, from its object, from events, and from the history, oldest first.

What cannot be read is left out, and a line says so. Sentences pass through the viewer's sight.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import msgspec

from maar.history.errors import HistoryError
from maar.history.history import History
from maar.history.records import Event, EventKind
from maar.kube.client.api import Api
from maar.kube.client.errors import ApiError
from maar.views.records import OwnerView, StoryView
from maar.views.sight import Sight

EVENTS = "/api/v1/namespaces/{}/events"
"""Of the core group, whose fields can be selected on every server."""
MOST = 200
"""The newest entries that are shown."""
TIMEOUT = 5.0
PREEMPTED = "Preempted"
"""The reason of Maar's events on pods that it evicts."""
TOGETHER = 10.0
"""Seconds within which evictions with the same message are one entry. Tuned by hand."""

WORDS = {
    EventKind.SUBMITTED: "submitted",
    EventKind.STARTED: "started with {after} workers",
    EventKind.SUSPENDED: "suspended: it had {before} workers",
    EventKind.RESIZED: "resized from {before} to {after} workers",
    EventKind.EVICTED: "evicted: it made room for another job, and waits again",
    EventKind.STOPPED: "stopped: it lost its pods, and waits again",
    EventKind.ENDED: "ended: {how}",
}


class _Involved(msgspec.Struct):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None


class _Event(msgspec.Struct, rename="camel"):
    involved_object: _Involved = msgspec.field(default_factory=_Involved)
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None


class _Events(msgspec.Struct):
    items: list[_Event] = []


async def story_of(
    api: Api,
    history: History,
    job: str,
    created: float,
    owner: OwnerView | None,
    sight: Sight,
    namespaces: frozenset[str],
) -> tuple[StoryView, ...]:
    """The story of a job that the viewer may see."""
    namespace, _, name = job.partition("/")
    names = sorted({name, *(() if owner is None else (owner.name,))})
    happened, *told = await asyncio.gather(
        _from_history(history, namespace, name),
        _evictions(api, namespace, job),
        *(_from_events(api, namespace, each) for each in names),
    )
    found = [StoryView(at=created, what="Created", words="created", source="object"), *happened]
    for events in told:
        found += events
    found.sort(key=lambda entry: (entry.at, entry.what, entry.words))
    return tuple(msgspec.structs.replace(entry, words=sight.said(entry.words, namespaces)) for entry in found[-MOST:])


async def _from_history(history: History, namespace: str, name: str) -> list[StoryView]:
    if not history.on:
        return []
    try:
        events = await history.events_of(namespace, name)
    except HistoryError:
        return []
    return [_entry(event) for event in events[-MOST:]]


def _entry(event: Event) -> StoryView:
    words = WORDS[event.kind].format(before=event.before, after=event.after, how=event.how)
    return StoryView(at=event.at, what=event.kind.value.capitalize(), words=words, source="history")


async def _from_events(api: Api, namespace: str, name: str) -> list[StoryView]:
    """Events about objects of this name."""
    return [
        StoryView(at=at, what=event.reason, words=event.message, source="event")
        for event in await _read(api, namespace, f"involvedObject.name={name}")
        if event.involved_object.name == name and (at := _time(event)) is not None
    ]


async def _evictions(api: Api, namespace: str, job: str) -> list[StoryView]:
    """Evictions of pods of the job, which may be gone: each event is about a pod, and its message names the job."""
    times: dict[str, list[float]] = {}
    for event in await _read(api, namespace, f"reason={PREEMPTED}"):
        at = _time(event)
        if event.reason == PREEMPTED and at is not None and f"of `{job}`" in event.message:
            times.setdefault(event.message, []).append(at)
    return [
        StoryView(at=group[0], what="Evicted", words=f"{words}: {_pods(len(group))}", source="event")
        for words, moments in times.items()
        for group in _together(sorted(moments))
    ]


def _together(moments: list[float]) -> list[list[float]]:
    """Groups of moments without a long pause in between."""
    groups: list[list[float]] = []
    for at in moments:
        if groups and at - groups[-1][-1] <= TOGETHER:
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups


def _pods(count: int) -> str:
    return f"{count} pods" if count != 1 else "1 pod"


async def _read(api: Api, namespace: str, selector: str) -> list[_Event]:
    """Events of a namespace; none if they may not be read."""
    try:
        body = await api.get(
            EVENTS.format(namespace), params={"fieldSelector": selector, "limit": "500"}, timeout=TIMEOUT
        )
        return msgspec.json.decode(body, type=_Events).items
    except (ApiError, msgspec.DecodeError):
        return []


def _time(event: _Event) -> float | None:
    given: Any = event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    try:
        return datetime.fromisoformat(given).timestamp()
    except (TypeError, ValueError):
        return None
