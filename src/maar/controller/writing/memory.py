"""From a plan to the memory of the cluster: what the next cycle must find again, wherever it runs.

This is part of the outbox. The election, lost elections, the last change of each pool and the last round of evictions
of each plugin go to the ConfigMap `maar-state` in Maar's own namespace; locks go to the nodes. Tenants can write
neither. Written is what differs from what the watches show, so that a deleted ConfigMap or a removed lock comes back.
Every write to the ConfigMap states the version that it replaces.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import msgspec

from maar.controller.snapshots.cache import Cache
from maar.kube.kinds.cluster import NODES as NODES_KIND
from maar.kube.kinds.cluster import STATE
from maar.kube.read.state import (
    State,
    entry_of,
    entry_of_shard,
    others_in,
    read_entry,
    shard_entries,
    write_state,
)
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import CONFIG_MAPS, NODES
from maar.kube.wire.cluster import ConfigMap
from maar.kube.write.executor import Create, Outcome, Patch, Work
from maar.model.plan import Lock, Plan

Submit = Callable[[Work, Callable[[Outcome], None]], None]

PATIENCE = 10.0
"""Seconds that a watch may need to show a write; after that it is written again. Tuned by hand."""
EMPTY = write_state(State())


class Sent(NamedTuple):
    """A write that no watch has shown yet."""

    text: str
    before: str
    """The version that it replaces."""
    until: float
    """When to try again, if nothing has changed."""


class Memory:
    """Writes what one cycle must tell the next, except for what belongs to a single pod or elastic job."""

    def __init__(
        self,
        cache: Cache,
        submit: Submit,
        trigger: Callable[[], None],
        namespace: str,
        scheduler_names: frozenset[str],
    ) -> None:
        self._cache = cache
        self._submit = submit
        self._trigger = trigger
        self._namespace = namespace
        self._whole = self._entry = entry_of(scheduler_names)
        self._in_flight = False
        self._sent: Sent | None = None
        self._locks: dict[str, Sent] = {}
        """Changes of locks that no watch has shown yet, by node."""
        self._locks_in_flight: set[str] = set()

    def belongs_to(self, shard: int) -> None:
        """Write the entry of one of several shards."""
        self._entry = entry_of_shard(self._whole, shard)

    def send(self, plan: Plan, now: float) -> None:
        """Write what differs from what the watches show. Of several shards each writes elections of its own jobs, and
        locks of its own nodes."""
        is_own = self._cache.is_own
        elect = plan.elect if plan.elect is not None and is_own(plan.elect.job) else None
        expired = tuple(e for e in plan.expired if is_own(e.job)) if self._cache.shares else plan.expired
        self._send_state(State(elect, expired, self._cache.pool_times.current(), plan.rounds), now)
        self._send_locks(plan, now)

    def due(self) -> float | None:
        """When a write that is not seen has to be tried again."""
        waiting = [sent.until for node, sent in self._locks.items() if node not in self._locks_in_flight]
        if self._sent is not None and not self._in_flight:
            waiting.append(self._sent.until)
        return min(waiting, default=None)

    # -- the ConfigMap

    def _send_state(self, state: State, now: float) -> None:
        seen = self._cache.picture.objects.of(STATE).get(f"{self._namespace}/{STATE.only}")
        text = write_state(state, others_in(seen, self._entry))
        version = "" if seen is None else seen.metadata.resource_version
        ended = self._ended(seen)
        if not ended and text == (EMPTY if seen is None else seen.data.get(self._entry, EMPTY)):
            self._sent = None
            return
        if self._in_flight or (self._sent is not None and self._sent.before == version and _is_soon(self._sent, now)):
            return
        self._in_flight, self._sent = True, Sent(text, version, now + PATIENCE)
        data = {**ended, self._entry: text}
        if seen is None:
            body = {
                "apiVersion": CONFIG_MAPS.api_version,
                "kind": CONFIG_MAPS.kind,
                "metadata": {"name": STATE.only, "namespace": self._namespace},
                "data": data,
            }
            self._submit(Create(CONFIG_MAPS.path(self._namespace), STATE.only, body), self._written)
        else:
            change = {"metadata": {"resourceVersion": version}, "data": data}
            self._submit(Patch(CONFIG_MAPS.path(self._namespace, STATE.only), change), self._written)

    def _ended(self, seen: ConfigMap | None) -> dict[str, str]:
        """Entries of other shards with an election of a job that this process decides for now, without it."""
        if seen is None or not self._cache.shares:
            return {}
        found = {}
        for key in shard_entries(seen, self._whole):
            state = read_entry(seen, key)
            if key != self._entry and state.elect is not None and self._cache.is_own(state.elect.job):
                found[key] = write_state(msgspec.structs.replace(state, elect=None))
        return found

    def _written(self, outcome: Outcome) -> None:
        self._in_flight = False
        self._trigger()

    # -- locks

    def _send_locks(self, plan: Plan, now: float) -> None:
        nodes, uses = self._cache.picture.objects.of(NODES_KIND), self._cache.uses
        wanted = {lock.node: lock for lock in plan.locks}
        self._locks = {name: sent for name, sent in self._locks.items() if name in nodes and uses(name)}
        for name in sorted(wanted.keys() | self._cache.picture.locks.keys() | self._locks.keys()):
            if name not in nodes or not uses(name):
                continue
            notes, shown = _notes(wanted.get(name)), nodes[name].metadata.annotations
            if all(shown.get(key) == value for key, value in notes.items()):
                self._locks.pop(name, None)
                continue
            sent, text = self._locks.get(name), str(notes)
            if name not in self._locks_in_flight and (sent is None or sent.text != text or not _is_soon(sent, now)):
                self._locks[name] = Sent(text, "", now + PATIENCE)
                self._locks_in_flight.add(name)
                patch = Patch(NODES.path(name=name), {"metadata": {"annotations": notes}}, "merge")
                self._submit(patch, partial(self._lock_written, name))

    def _lock_written(self, node: str, outcome: Outcome) -> None:
        self._locks_in_flight.discard(node)
        self._trigger()


def _is_soon(sent: Sent, now: float) -> bool:
    """Whether it is too early to write again; a time further away was set before the clock was set back."""
    return now < sent.until <= now + PATIENCE


def _notes(lock: Lock | None) -> dict[str, str | None]:
    if lock is None:
        return {known.LOCKED_FOR: None, known.LOCKED_SINCE: None, known.LOCKED_UID: None}
    return {known.LOCKED_FOR: lock.job, known.LOCKED_SINCE: _time(lock.since), known.LOCKED_UID: lock.uid or None}


def _time(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
