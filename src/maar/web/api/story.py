"""The story of a job: what happened to it, from its object, from events, and from the history, oldest first.

The sources tell many changes twice: what two of them tell is one entry (`joined`). A source that cannot be read is
left out, and named. Sentences pass through the viewer's sight.
"""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from typing import Any

import msgspec

from maar.history.errors import HistoryError
from maar.history.history import History
from maar.history.records import RUNS, Event, EventKind
from maar.kube.client.errors import ApiError
from maar.kube.client.reader import Reader
from maar.model.jobs import Job
from maar.model.words import count as counted
from maar.model.words import number
from maar.views.records import OwnerView, StoryView
from maar.views.sight import Sight

EVENTS = "/api/v1/namespaces/{}/events"
"""Events of the core group: their fields can be selected on every server."""
MOST = 200
"""The newest entries that are shown."""
TIMEOUT = 5.0
PREEMPTED = "Preempted"
"""The reason of Maar's events on pods that it evicts."""
QUOTED = re.compile(r"`([^`]*)`")
SIZES = re.compile(r"from \d+ to \d+ workers")
TOGETHER = 10.0
"""Seconds within which evictions with the same message are one entry. Tuned by hand."""
SAME = 30.0
"""Seconds between a change in the history and the event about it, which a busy API server delays. Tuned by hand."""
TWINS = {"Started": "Scheduled", "Resized": "Resized", "Suspended": "Suspended", "Evicted": "Evicted"}
"""The reason of Maar's event about a change that the history has too."""

WORDS = {
    EventKind.SUBMITTED: "submitted",
    EventKind.STARTED: "started with {after}",
    EventKind.SUSPENDED: "suspended: it had {before}",
    EventKind.RESIZED: "resized from {size} to {after}",
    EventKind.EVICTED: "evicted: it made room for another job, and waits again",
    EventKind.STOPPED: "stopped: it lost its pods, and waits again",
    EventKind.ENDED: "ended: {how}",
}


class Story(msgspec.Struct, frozen=True):
    """What happened to a job, as far as it could be read."""

    entries: tuple[StoryView, ...] = ()
    without: tuple[str, ...] = ()
    """Sources that could not be read: `events`, `history`."""


class _Involved(msgspec.Struct):
    name: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None


class _Series(msgspec.Struct):
    count: int = 1


class _Event(msgspec.Struct, rename="camel"):
    involved_object: _Involved = msgspec.field(default_factory=_Involved)
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None


class _Events(msgspec.Struct):
    items: list[_Event] = []


async def story_of(
    api: Reader, history: History, job: Job, owner: OwnerView | None, sight: Sight, namespaces: frozenset[str]
) -> Story:
    """The story of a job that the viewer may see."""
    namespace, _, name = job.key.partition("/")
    names = sorted({name, *(() if owner is None else (owner.name,))})
    happened, *told = await asyncio.gather(
        _from_history(history, job),
        _evictions(api, namespace, job.key),
        *(_from_events(api, namespace, each, job.key) for each in names),
    )
    events = [entry for entries in told for entry in entries or ()]
    found = [StoryView(at=job.created, what="Created", words="created", source="object")]
    found += joined(happened or _from_object(job), events)
    found.sort(key=lambda entry: (entry.at, entry.what, entry.words))
    shown = (msgspec.structs.replace(entry, words=sight.said(entry.words, namespaces)) for entry in found[-MOST:])
    unread = {"events": None in told, "history": happened is None}
    return Story(tuple(shown), tuple(source for source, lacks in unread.items() if lacks))


def joined(noted: list[StoryView], events: list[StoryView]) -> list[StoryView]:
    """The entries of both lists. What both tell is the event, which says why, with the number of workers.

    Each event is joined with one entry at most, so that a change that happens again is told again. An eviction may
    have several events, one for each job that benefits.
    """
    left, found = list(events), list[StoryView]()
    for entry in sorted(noted, key=lambda entry: entry.at):
        near = [(abs(event.at - entry.at), i) for i, event in enumerate(left) if _are_twins(entry, event)]
        if not near:
            found.append(entry)
            continue
        twins = sorted(i for _, i in (near if entry.what == "Evicted" else [min(near)]))
        found += [msgspec.structs.replace(left[i], workers=entry.workers) for i in twins]
        left = [event for i, event in enumerate(left) if i not in twins]
    return found + left


def _are_twins(entry: StoryView, event: StoryView) -> bool:
    """Whether an event tells what another source notes: the same change, at about the same time."""
    if event.what != TWINS.get(entry.what) or abs(event.at - entry.at) > SAME:
        return False
    noted, told = SIZES.search(entry.words), SIZES.search(event.words)
    return noted is None or told is None or noted[0] == told[0]


def _from_object(job: Job) -> list[StoryView]:
    """What Maar notes on the object of an elastic job itself (`maar.dev/elastic`): its first start and last change."""
    if job.elastic is None:
        return []
    past, now = job.elastic.past, job.elastic.now
    found = []
    if past.first_start is not None:
        found.append(StoryView(at=past.first_start, what="Started", words="started", source="object"))
    if past.last_resize is not None and past.last_resize != past.first_start:
        words = f"resized: it has {counted(now, 'worker')} since then" if now else "suspended"
        what = "Resized" if now else "Suspended"
        found.append(StoryView(at=past.last_resize, what=what, words=words, source="object", workers=now))
    return found


async def _from_history(history: History, job: Job) -> list[StoryView] | None:
    """Accounting events; `None` if they cannot be read."""
    if not history.on:
        return []
    namespace, _, name = job.key.partition("/")
    try:
        events = await history.events_of(namespace, name)
    except HistoryError:
        return None
    # Earlier jobs may have had the same name: the story begins after the end of the last one.
    ends = [i for i, event in enumerate(events) if event.kind is EventKind.ENDED and event.uid != job.uid]
    mine = events[ends[-1] + 1 if ends else 0 :]
    # That it was submitted is what its object says: created.
    return [_entry(event) for event in mine if event.kind is not EventKind.SUBMITTED or event.uid not in ("", job.uid)]


def _entry(event: Event) -> StoryView:
    before, after = (counted(size or 0, "worker") for size in (event.before, event.after))
    words = WORDS[event.kind].format(size=number(event.before or 0), before=before, after=after, how=event.how)
    workers = event.after if event.kind in RUNS else None if event.kind is EventKind.SUBMITTED else 0
    return StoryView(at=event.at, what=event.kind.value.capitalize(), words=words, source="history", workers=workers)


async def _from_events(api: Reader, namespace: str, name: str, job: str) -> list[StoryView] | None:
    """Events about objects of this name, without evictions of the job: `_evictions` has those of all its pods."""
    events = await _read(api, namespace, f"involvedObject.name={name}")
    if events is None:
        return None
    return [
        StoryView(at=at, what=event.reason, words=_words(event), source="event")
        for event in events
        if event.involved_object.name == name and not _evicts(event, job) and (at := _time(event)) is not None
    ]


def _words(event: _Event) -> str:
    times = 1 if event.series is None else event.series.count
    return event.message if times <= 1 else f"{event.message} ({times} times)"


async def _evictions(api: Reader, namespace: str, job: str) -> list[StoryView] | None:
    """Evictions of pods of the job, which may be gone: each event is about a pod."""
    times: dict[str, list[float]] = {}
    events = await _read(api, namespace, f"reason={PREEMPTED}")
    if events is None:
        return None
    for event in events:
        at = _time(event)
        if at is not None and _evicts(event, job):
            times.setdefault(event.message, []).append(at)
    return [
        StoryView(at=group[0], what="Evicted", words=f"{words}: {counted(len(group), 'pod')}", source="event")
        for words, moments in times.items()
        for group in _together(sorted(moments))
    ]


def _evicts(event: _Event, job: str) -> bool:
    """Whether Maar evicts a pod of the job: the first job that the message names loses the pod."""
    loser = next((key for key in QUOTED.findall(event.message) if "/" in key), "")
    return event.reason == PREEMPTED and loser == job


def _together(moments: list[float]) -> list[list[float]]:
    """Groups of moments without a long pause in between."""
    groups: list[list[float]] = []
    for at in moments:
        if groups and at - groups[-1][-1] <= TOGETHER:
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups


async def _read(api: Reader, namespace: str, selector: str) -> list[_Event] | None:
    """Events of a namespace; `None` if they cannot be read."""
    params = {"fieldSelector": selector, "limit": "500"}
    try:
        body = await api.get(EVENTS.format(namespace), params=params, timeout=TIMEOUT)
        return msgspec.json.decode(body, type=_Events).items
    except (ApiError, msgspec.DecodeError):
        return None


def _time(event: _Event) -> float | None:
    given: Any = event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    try:
        return datetime.fromisoformat(given).timestamp()
    except (TypeError, ValueError):
        return None
