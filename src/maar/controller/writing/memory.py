"""From a plan to the memory of the cluster: what the next cycle must find again, wherever it runs.

This is part of the outbox. The election, the last change of each pool and the facts about the cluster and about jobs go
to the ConfigMap `maar-state` in Maar's own namespace; locks and the facts about nodes and queues go to annotations of
these. Tenants can write none of them. Written is what differs from what the watches show, so that a deleted ConfigMap
or a removed lock comes back. Every write to the ConfigMap states the version that it replaces.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import msgspec

from maar.controller.snapshots.cycle import Cycle
from maar.controller.snapshots.own import OwnPart
from maar.controller.snapshots.pool_times import PoolTimes
from maar.kube.kinds.cluster import NODES as NODES_KIND
from maar.kube.kinds.cluster import QUEUES as QUEUES_KIND
from maar.kube.kinds.cluster import STATE
from maar.kube.kinds.status import micro_time_text
from maar.kube.picture.picture import Picture
from maar.kube.read import state as stored
from maar.kube.read.facts import NO_FACTS, write_on_object
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import CONFIG_MAPS, NODES, QUEUES
from maar.kube.wire.cluster import ConfigMap
from maar.kube.write.executor import Create, Outcome, Patch, Work
from maar.model.facts import About, Fact
from maar.model.plan import Lock

logger = logging.getLogger("maar.memory")

Submit = Callable[[Work, Callable[[Outcome], None]], None]

PATIENCE = 10.0
"""Seconds that a watch may need to show a write; after that it is written again. Tuned by hand."""
EMPTY = (NO_FACTS, stored.write_state(stored.State()))
"""What a missing entry with facts, and a missing one with the rest, stand for."""


class SentWrite(NamedTuple):
    """A write that no watch has shown yet."""

    text: str
    before: str
    """The version that it replaces."""
    until: float
    """When to try again, if nothing has changed."""


class ObjectNotes(NamedTuple):
    """The annotations that an object should have, and those that it shows."""

    wanted: dict[str, str | None]
    shown: Mapping[str, str]


@dataclass(eq=False, slots=True)
class Memory:
    """Writes what one cycle must tell the next, except for what belongs to a single pod or elastic job."""

    _picture: Picture
    _pool_times: PoolTimes
    _submit: Submit
    _trigger: Callable[[], None]
    _namespace: str
    _whole: str
    """The entry of this Maar."""
    _shard: int = 0
    _in_flight: bool = False
    _sent: SentWrite | None = None
    _left_out: Counter[str] = field(default_factory=Counter)
    """How many facts did not fit, by where."""
    _notes: dict[tuple[About, str], SentWrite] = field(default_factory=dict)
    """Changes of annotations that no watch has shown yet, by node or queue."""
    _notes_in_flight: set[tuple[About, str]] = field(default_factory=set)

    def belongs_to(self, shard: int) -> None:
        """Write the entry of one of several shards."""
        self._shard = shard

    @property
    def _entry(self) -> str:
        return stored.entry_of_shard(self._whole, self._shard)

    def send(self, cycle: Cycle) -> None:
        """Write what differs from what the watches show. Of several shards each writes elections and facts of its own
        jobs and queues, locks and facts of its own nodes, and what it knows about the cluster."""
        plan, now, is_own = cycle.plan, cycle.now, cycle.own.has_job
        elect = plan.elect if plan.elect is not None and is_own(plan.elect.job) else None
        by_place: dict[tuple[About, str], list[Fact]] = {}
        whole: list[Fact] = []
        for fact in plan.facts:
            if fact.about in (About.QUEUE, About.NODE):
                by_place.setdefault((fact.about, fact.key), []).append(fact)
            elif fact.about is About.CLUSTER or is_own(fact.key):
                whole.append(fact)
        self._send_state(stored.State(elect, self._pool_times.current(), tuple(whole)), now, cycle.own)
        self._send_notes(cycle, by_place)

    def due(self) -> float | None:
        """When a write that is not seen has to be tried again."""
        waiting = [sent.until for place, sent in self._notes.items() if place not in self._notes_in_flight]
        if self._sent is not None and not self._in_flight:
            waiting.append(self._sent.until)
        return min(waiting, default=None)

    # -- the ConfigMap

    def _send_state(self, state: stored.State, now: float, own: OwnPart) -> None:
        seen = self._picture.objects.of(STATE).get(f"{self._namespace}/{STATE.only}")
        data, left_out = stored.entries_of(self._entry, state, stored.others_in(seen, self._entry))
        self._tell_left_out(STATE.only, left_out)
        version, shown = ("", dict[str, str]()) if seen is None else (seen.metadata.resource_version, seen.data)
        data = {key: text for key, text in data.items() if text != shown.get(key, EMPTY[key == self._entry])}
        data.update(self._ended(seen, own))
        if not data:
            self._sent = None
            return
        if self._in_flight or (self._sent is not None and self._sent.before == version and _is_soon(self._sent, now)):
            return
        self._in_flight, self._sent = True, SentWrite(str(data), version, now + PATIENCE)
        if seen is None:
            body = CONFIG_MAPS.document({"name": STATE.only, "namespace": self._namespace}, data=data)
            self._submit(Create(CONFIG_MAPS.path(self._namespace), STATE.only, body), self._written)
        else:
            change = {"metadata": {"resourceVersion": version}, "data": data}
            self._submit(Patch(CONFIG_MAPS.path(self._namespace, STATE.only), change), self._written)

    def _tell_left_out(self, where: str, count: int) -> None:
        if count > self._left_out[where]:
            logger.warning("too much to remember in %s: %d facts are forgotten with the next restart", where, count)
        self._left_out[where] = count

    def _ended(self, seen: ConfigMap | None, own: OwnPart) -> dict[str, str]:
        """Entries of other shards with an election of a job that this process decides for now, without it."""
        if seen is None or own.is_all:
            return {}
        found = {}
        for key in stored.shard_entries(seen, self._whole):
            state = stored.read_entry(seen, key)
            if key != self._entry and state.elect is not None and own.has_job(state.elect.job):
                found[key] = stored.write_state(msgspec.structs.replace(state, elect=None))
        return found

    def _written(self, outcome: Outcome) -> None:
        self._in_flight = False
        self._trigger()

    # -- annotations of nodes and queues

    def _send_notes(self, cycle: Cycle, facts: dict[tuple[About, str], list[Fact]]) -> None:
        wanted, now = self._wanted(cycle, facts), cycle.now
        self._notes = {place: sent for place, sent in self._notes.items() if place in wanted}
        for place, (notes, shown) in sorted(wanted.items()):
            if all(shown.get(key) == value for key, value in notes.items()):
                self._notes.pop(place, None)
                continue
            sent, text = self._notes.get(place), str(notes)
            if place not in self._notes_in_flight and (sent is None or sent.text != text or not _is_soon(sent, now)):
                self._notes[place] = SentWrite(text, "", now + PATIENCE)
                self._notes_in_flight.add(place)
                path = (NODES if place[0] is About.NODE else QUEUES).path(name=place[1])
                patch = Patch(path, {"metadata": {"annotations": notes}}, "merge")
                self._submit(patch, partial(self._note_written, place))

    def _wanted(self, cycle: Cycle, facts: dict[tuple[About, str], list[Fact]]) -> dict[tuple[About, str], ObjectNotes]:
        """The annotations that own nodes and queues should have, and those that they show."""
        own, of = cycle.own, self._picture.objects.of
        locks = {lock.node: lock for lock in cycle.plan.locks}
        nodes, queues = of(NODES_KIND), of(QUEUES_KIND)
        named = self._picture.noted.union(locks, (key for about, key in (*facts, *self._notes) if about is About.NODE))
        found: dict[tuple[About, str], ObjectNotes] = {}
        for name in named:
            if name in nodes and own.has_node(name):
                place = (About.NODE, name)
                notes = _notes(locks.get(name))
                if name in cycle.snapshot.nodes.row:  # one that is set aside keeps its facts
                    notes.update(self._noted(place, facts))
                found[place] = ObjectNotes(notes, nodes[name].metadata.annotations)
        for name, queue in queues.items():
            place, shown = (About.QUEUE, name), queue.metadata.annotations
            if (place in facts or known.FACTS in shown or place in self._notes) and own.has_queue(name):
                found[place] = ObjectNotes(self._noted(place, facts), shown)
        return found

    def _noted(self, place: tuple[About, str], facts: dict[tuple[About, str], list[Fact]]) -> dict[str, str | None]:
        """The annotation of a queue or node with its facts."""
        text, left_out = write_on_object(facts.get(place, ()))
        self._tell_left_out(f"{place[0]} `{place[1]}`", left_out)
        return {known.FACTS: None if text == NO_FACTS else text}

    def _note_written(self, place: tuple[About, str], outcome: Outcome) -> None:
        self._notes_in_flight.discard(place)
        self._trigger()


def _is_soon(sent: SentWrite, now: float) -> bool:
    """Whether it is too early to write again; a time further away was set before the clock was set back."""
    return now < sent.until <= now + PATIENCE


def _notes(lock: Lock | None) -> dict[str, str | None]:
    if lock is None:
        return {known.LOCKED_FOR: None, known.LOCKED_SINCE: None, known.LOCKED_UID: None}
    return {
        known.LOCKED_FOR: lock.job,
        known.LOCKED_SINCE: micro_time_text(lock.since),
        known.LOCKED_UID: lock.uid or None,
    }
