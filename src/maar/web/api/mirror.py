"""The cluster in memory: watched as `maar run` watches it, decided in shadow, ready for views.

It has an observer, which cannot write. What it keeps of each cycle is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from itertools import pairwise

import msgspec
import numpy as np
from msgspec.structs import replace

from maar.config.config import Config
from maar.controller.observer import Observer
from maar.controller.settings.brakes import BrakeSettings
from maar.controller.snapshots import cycle as published
from maar.kube.picture.job_objects import subject_of
from maar.kube.picture.shards import sharing_of
from maar.kube.read.shards import BrokenMap
from maar.model.jobs import Job, Phase
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.shards.sharing import Sharing
from maar.views.decisions import ShownCycle, moves_of, short
from maar.views.records import OwnerView, UtilisationView
from maar.views.tally import Tally
from maar.views.utilisation import utilisation_view
from maar.whatif.edit import Scene

KEPT = 50
"""Cycles that are kept: those that would do something else than the one before."""
REPLAYED = 10
"""The newest of them, which can be decided again. Most of what they need is shared; tuned by hand."""
FINEST = 1.0
"""Seconds in which utilisation has two points at most, while the series is short."""
COARSEST = 60.0
"""The same when it is long."""
POINTS = 2 * 24 * 60
"""Points that are kept: a day, or more if little happens."""
HEARD = 5.0
"""Seconds between two notes of how old the data is. Tuned by hand."""
QUIET = 150.0
"""Seconds without news after which the cluster is away. A minute is normal if nothing happens there."""
MANY = 1000
"""Changed jobs or nodes above which readers of the stream fetch everything again. Tuned by hand."""


class Changes(msgspec.Struct):
    """What changed since a reader of the stream last looked."""

    jobs: set[str] = msgspec.field(default_factory=set)
    nodes: set[str] = msgspec.field(default_factory=set)
    all: bool = False

    def add(self, more: Changes) -> None:
        """Add changes; too many become `all`, so that a slow reader costs no memory."""
        if not self.all:
            self.jobs |= more.jobs
            self.nodes |= more.nodes
        if self.all or more.all or len(self.jobs) > MANY or len(self.nodes) > MANY:
            self.jobs, self.nodes, self.all = set(), set(), True


class Moment(msgspec.Struct, frozen=True):
    """What an answer is based on."""

    tally: Tally
    cluster: Cluster
    """The cluster around jobs and pods, of which the snapshot is made."""
    config: Config
    number: int


class Series:
    """Utilisation since the process started, fine while the series is short, for about a day.

    A value that held for long is a point of its own, however short before it another one was. So a line through the
    points is never wrong for longer than `every` seconds.
    """

    def __init__(self) -> None:
        self.every = FINEST
        """Seconds in which there are two points at most."""
        self._points: list[UtilisationView] = []
        self._newest: Tally | None = None
        self._heard = 0.0

    def look(self, tally: Tally) -> None:
        """Take up a cycle; a clock that was set back begins again."""
        before = self._newest
        if before is not None and tally.now < before.now:
            self.every, self._points, self._heard, before = FINEST, [], 0.0, None
        if before is not None:
            known = max(self._heard, before.now)
            if tally.now - known > QUIET:
                self._add(before, until=known)
            elif tally.now - before.now >= self.every:
                self._add(before)
        self._newest = tally
        if not self._points or tally.now - self._points[-1].at >= self.every:
            self._add(tally)

    def heard(self, as_of: float) -> None:
        """Note until when everything that the cluster showed is known."""
        self._heard = max(self._heard, as_of)

    def points(self) -> list[UtilisationView]:
        """The oldest first, up to the last cycle."""
        newest = self._newest
        if newest is None or self._points[-1].at >= round(newest.now, 3):
            return list(self._points)
        return [*self._points, utilisation_view(newest)]

    def _add(self, tally: Tally, until: float | None = None) -> None:
        view = replace(utilisation_view(tally), until=None if until is None else round(until, 3))
        if self._points and self._points[-1].at >= view.at:
            self._points.pop()
        self._points.append(view)
        while len(self._points) > POINTS and self.every < COARSEST:
            self.every = min(2 * self.every, COARSEST)
            self._points = thinned(self._points, self.every)
        del self._points[:-POINTS]


def thinned(points: list[UtilisationView], every: float) -> list[UtilisationView]:
    """The points without those that held for less than `every` seconds and begin as soon after another one."""
    kept = points[:1]
    for point, after in pairwise(points[1:]):
        held = (after.at if point.until is None else point.until) - point.at
        if held >= every or point.at - kept[-1].at >= every or point.until is not None:
            kept.append(point)
    return [*kept, *points[-1:]]


class Mirror:
    """Follows one cluster."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._owners: dict[str, OwnerView] = {}
        self._shared: Sharing | None = None
        self.moment: Moment | None = None
        self.cycles: deque[ShownCycle] = deque(maxlen=KEPT)
        self._scenes: deque[tuple[int, Scene]] = deque(maxlen=REPLAYED)
        self.utilisation = Series()
        self.readers: list[Callable[[Changes], None]] = []
        """Called after each cycle with what changed."""
        self.observer.loop.on_cycle.append(self._on_cycle)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        await self.observer.sync()
        listening = asyncio.create_task(self._listen())
        try:
            await self.observer.observe()
        finally:
            listening.cancel()

    async def _listen(self) -> None:
        """Note how old the data is, so that a time without news is a gap in the series."""
        while True:
            self.utilisation.heard(self.as_of())
            await asyncio.sleep(HEARD)

    def as_of(self) -> float:
        """The time until which everything that the cluster showed is in the answers."""
        now = self.observer.loop.clock()
        known = now - max(self.observer.lags().values(), default=0.0)
        moment = self.moment
        if moment is None or not self.observer.loop.is_due:
            return known
        return min(known, moment.tally.now)

    def not_ready(self) -> str:
        """What is missing before the first answer; empty if nothing is."""
        return self.observer.not_ready() or ("" if self.moment is not None else "no decision yet")

    def cluster(self) -> Cluster:
        """The last snapshot as plain data; only from the event loop."""
        return self.observer.cache.cluster()

    def is_latest(self, moment: Moment) -> bool:
        """Whether `cluster` is what a moment was decided on: the next decision may be under way."""
        return self.observer.cache.latest is moment.tally.snapshot

    @property
    def is_braked(self) -> bool:
        """Whether brakes may keep back a part of what is decided."""
        return self.observer.brakes.settings != BrakeSettings()

    def node_of(self, pod: str) -> str | None:
        """The node of a pod now: empty while it waits, `None` if it is gone or leaves."""
        task = self.observer.cache.find(pod)
        if task is None or task.status is Status.RELEASING:
            return None
        return task.node if task.status not in (Status.PENDING, Status.NOMINATED) else ""

    def size_of(self, job: str) -> int | None:
        """The workers that an elastic job has now; `None` if it is gone."""
        found = self._job(job)
        return None if found is None or found.elastic is None else found.elastic.now

    def is_admitted(self, job: str) -> bool:
        """Whether a job is there and admitted now."""
        found = self._job(job)
        return found is not None and found.phase is not Phase.PENDING

    def _job(self, key: str) -> Job | None:
        if self.moment is None:
            return None
        jobs = self.moment.tally.snapshot.jobs
        row = jobs.number.get(key)
        return None if row is None else jobs.jobs[row]

    # -- after a cycle

    def _on_cycle(self, cycle: published.Cycle) -> None:
        self._learn_owners(cycle)
        before, snapshot, plan = self.moment, cycle.snapshot, cycle.plan
        if before is not None and not plan.deserved:
            plan = replace(plan, deserved=before.tally.plan.deserved)
        tally = Tally(snapshot, plan, cycle.now, cycle.waits, dict(self._owners), self._sharing())
        config = self.observer.config.current()[0]
        self.moment = Moment(tally, snapshot.cluster, config, cycle.number)
        self._keep(cycle, tally, config)
        self.utilisation.look(tally)
        changes = self._changes(cycle, None if before is None else before.tally)
        for reader in self.readers:
            reader(changes)

    def _sharing(self) -> Sharing | None:
        """The shards of the cluster, if it has any. The last map that could be used stays, as for the shards."""
        with contextlib.suppress(BrokenMap):
            self._shared = sharing_of(self.observer.picture)
        return self._shared

    def _keep(self, cycle: published.Cycle, tally: Tally, config: Config) -> None:
        """Keep a cycle that would do something new. A shadow decides the same again until the cluster changes."""
        plan = short(cycle.plan)
        if not (plan.moves or plan.nominate) or (self.cycles and moves_of(plan) == moves_of(self.cycles[-1].plan)):
            return
        jobs = {pod: task.job for pod, task in cycle.pods.items()}
        self.cycles.append(ShownCycle(cycle.number, cycle.now, cycle.seconds, plan, jobs, tally.namespaces))
        self._scenes.append((cycle.number, Scene(self.cluster(), config)))

    def scene(self, number: int) -> tuple[Scene, float] | None:
        """What a kept cycle decided on, and when; `None` if it is no longer known."""
        scene = next((scene for known, scene in self._scenes if known == number), None)
        at = next((cycle.at for cycle in self.cycles if cycle.number == number), None)
        return None if scene is None or at is None else (scene, at)

    def _learn_owners(self, cycle: published.Cycle) -> None:
        for key, change in cycle.changed.items():
            self._owners.pop(key, None)
            if change is None:
                continue
            with contextlib.suppress(Exception):  # an answer without an owner is better than none
                subject = subject_of(self.observer.picture, cycle.snapshot, key)
                if subject is not None:
                    told = subject.tells
                    self._owners[key] = OwnerView(api_version=told.api_version, kind=told.kind, name=told.name)

    def _changes(self, cycle: published.Cycle, before: Tally | None) -> Changes:
        if before is None:
            return Changes(all=True)
        snapshot, changed = cycle.snapshot, set(cycle.changed)
        # A job may wait for another reason without a change of its own.
        changed.update(key for key, wait in cycle.waits.items() if before.waits.get(key) != wait)
        changed.update(key for key in before.waits if key not in cycle.waits)
        nodes = _changed_nodes(before.snapshot, snapshot)
        for each in (before.snapshot, snapshot):
            for key in cycle.changed:
                if (row := each.jobs.number.get(key)) is not None:
                    on = each.tasks.node[slice(*each.jobs.members.span(row))]
                    nodes.update(each.nodes.names[i] for i in np.unique(on[on >= 0]).tolist())
        changes = Changes()
        changes.add(Changes(changed, nodes))
        return changes


def _changed_nodes(before: Snapshot, after: Snapshot) -> set[str]:
    locks = {(lock.node, lock.job) for lock in before.cluster.locks} ^ {(k.node, k.job) for k in after.cluster.locks}
    changed = {node for node, _ in locks}
    if before.nodes is after.nodes:
        differ = np.zeros(len(after.nodes), dtype=np.bool_)
        for name in ("used", "releasing", "nominated"):
            differ |= (getattr(before, name) != getattr(after, name)).any(axis=1)
        return changed | {after.nodes.names[row] for row in np.flatnonzero(differ).tolist()}
    known = {node.name: node for node in before.nodes.nodes}
    here = {node.name: node for node in after.nodes.nodes}
    changed |= known.keys() ^ here.keys()
    for name in known.keys() & here.keys():
        rows = before.nodes.row[name], after.nodes.row[name]
        same = before.axes.names == after.axes.names and all(
            np.array_equal(getattr(before, each)[rows[0]], getattr(after, each)[rows[1]])
            for each in ("used", "releasing", "nominated")
        )
        if not same or known[name] != here[name]:
            changed.add(name)
    return changed
