"""tdm: time-division multiplexing. Nodes of revocable zones take preemptable pods, in the hours of their zone only.

A node is in the zone that its label `volcano.sh/revocable-zone` names; the arguments state the hours of each zone.

    in the hours      only revocable pods may use the node, and they prefer it
    otherwise         no pod may; preemptable pods on it leave in rounds: surplus by the budget of their job, then the
                      whole gang. The actions `shuffle` and `preempt` carry that out

Jobs that are not preemptable go first, and may evict preemptable pods from ordinary nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec
import numpy as np

from maar.config.config import OpenArguments, Tenants
from maar.model.codes import NODES, Code
from maar.model.durations import parse_duration
from maar.model.jobs import Job
from maar.model.minimum import has_minimum
from maar.model.reasons import Refusal
from maar.model.resources import Floats, Ints, Mask
from maar.model.tasks import Status
from maar.model.words import count as counted
from maar.plugins.volcano.hours import Hours, OpeningHours, clock, opening, parse_hours, parse_zone
from maar.session.eviction.departures import surplus_for, unit_for
from maar.session.eviction.protection import unprotected
from maar.session.hooks import Claim, Departure, Vote
from maar.session.register import Register
from maar.session.session import Session
from maar.session.subgroups import WITH_ROOM

NAME = "tdm"

REVOCABLE = Code("RevocableZone", NODES)
CLOSED = Code("RevocableZoneClosed", NODES)
CODES = (REVOCABLE, CLOSED)

LABEL = "volcano.sh/revocable-zone"
ZONES = "tdm.revocable-zone"
PERIOD, TIME_ZONE = "tdm.evict.period", "tdm.time-zone"
PREFERRED = 100.0
"""The score of Volcano for a revocable pod on a node of an open zone."""
WITHOUT_BUDGET = 1
"""Pods of a job that leave in one round if it states no budget; the default of Volcano."""


class Arguments(OpenArguments, frozen=True, forbid_unknown_fields=True):
    """The hours of each zone, the time between rounds of evictions, and the time zone of the hours."""

    zones: dict[str, str] = msgspec.field(name=ZONES, default_factory=dict)
    period: str | float = msgspec.field(name=PERIOD, default="1m")
    time_zone: str = msgspec.field(name=TIME_ZONE, default="UTC")

    @classmethod
    def normalise(cls, raw: dict[str, object]) -> dict[str, object]:
        """Gather `tdm.revocable-zone.<zone>` into one mapping, and check each value, so that an error names it."""
        zones = {key.removeprefix(f"{ZONES}."): key for key in raw if key.startswith(f"{ZONES}.")}
        if "" in zones:
            raise ValueError(f"{ZONES}.: expected the name of a zone after the last point")
        parsers: dict[str, Callable[[str], object]] = {PERIOD: parse_duration, TIME_ZONE: parse_zone}
        for key in raw:
            parse = parse_hours if key in zones.values() else parsers.get(key)
            if parse is not None:
                try:
                    parse(str(raw[key]))
                except ValueError as error:
                    raise ValueError(f"{key}: {error}") from None
        rest = {key: value for key, value in raw.items() if key not in zones.values()}
        return {**rest, ZONES: {zone: str(raw[key]) for zone, key in zones.items()}} if zones else rest

    def hours(self) -> dict[str, Hours]:
        """The hours of each zone."""
        return {zone: parse_hours(text) for zone, text in self.zones.items()}


class Zone(NamedTuple):
    """The nodes of one zone, and whether they may be used now."""

    name: str
    nodes: Mask
    opening: OpeningHours
    known: bool
    """Whether the arguments state its hours; otherwise it is always closed, and no pod on it is evicted."""


class Tdm:
    def __init__(self, arguments: Arguments) -> None:
        self._hours = arguments.hours()
        self._period = parse_duration(arguments.period)
        self._clock = parse_zone(arguments.time_zone)

    def open(self, session: Session, on: Register) -> None:
        self._session = session
        column = session.snapshot.nodes.label(LABEL)
        self._zones = [self._zone(name, np.asarray(column.codes == i)) for i, name in enumerate(column.values) if name]
        self._revocable = np.zeros(len(session.snapshot.nodes), dtype=np.bool_)
        for zone in self._zones:
            self._revocable |= zone.nodes
        on.predicate(self._refuse)
        on.score(self._score)
        on.job_order(lambda job: job.yields, "its owner does not call it preemptable")
        on.job_nominated(lambda job: Vote.PERMIT if self._nominated(job) else Vote.REJECT)
        on.job_starving(lambda job: not job.yields and bool(session.state.job_pending[job.index]))
        on.preemptable(self._victims)
        on.victim_tasks(self._leaving, in_preempt=True)
        self._wake()

    def _zone(self, name: str, nodes: Mask) -> Zone:
        hours = self._hours.get(name)
        if hours is None:
            return Zone(name, nodes, OpeningHours(False, None), False)
        return Zone(name, nodes, opening(hours, self._session.now, self._clock), True)

    def _wake(self) -> None:
        """Decide again when a zone closes on which a preemptable pod runs."""
        for zone in self._zones:
            if zone.opening.is_open and zone.opening.until is not None and self._on(zone.nodes):
                self._session.wake(zone.opening.until)

    # -- nodes

    def _refuse(self, shape: int) -> Iterable[Refusal]:
        may = self._session.snapshot.shapes.shapes[shape].revocable
        for zone in self._zones:
            if zone.opening.is_open:
                if not may:
                    words = f"in the revocable zone `{zone.name}`, which only preemptable pods may use"
                    yield Refusal(NAME, REVOCABLE, words, zone.nodes)
                continue
            what = "has no hours"
            if zone.opening.until is not None:
                what = f"is closed until {clock(zone.opening.until, self._clock)}"
                if may:
                    self._session.wake(zone.opening.until)
            words = f"in the revocable zone `{zone.name}`, which {what}"
            yield Refusal(NAME, CLOSED, words, zone.nodes)

    def _score(self, shape: int, rows: Ints | slice) -> Floats:
        if not self._session.snapshot.shapes.shapes[shape].revocable:
            return np.zeros(self._revocable[rows].shape)
        scores = np.zeros(len(self._revocable))
        for zone in self._zones:
            if zone.opening.is_open:
                scores[zone.nodes] = PREFERRED
        return np.asarray(scores[rows])

    # -- jobs

    def _nominated(self, job: Job) -> bool:
        tasks = self._session.snapshot.tasks.tasks
        return has_minimum(job, [tasks[t] for t in self._session.tasks_of(job, *WITH_ROOM).tolist()])

    def _victims(self, claim: Claim, tasks: Ints) -> Mask:
        """Preemptable pods on ordinary nodes, within the budgets of their jobs, and for jobs that are not preemptable.

        Revocable nodes cannot help such a job.
        """
        session, table = self._session, self._session.snapshot.tasks
        may = np.zeros(len(tasks), dtype=np.bool_)
        revocable = claim.shape >= 0 and session.snapshot.shapes.shapes[claim.shape].revocable
        if claim.job.yields or revocable:
            return may
        rows = session.state.node[tasks]
        may |= (rows >= 0) & ~self._revocable[rows]
        may &= np.array([table.tasks[t].yields for t in tasks.tolist()], dtype=np.bool_)
        jobs = table.job[tasks]
        for row in np.unique(jobs[may]).tolist():
            mine = np.flatnonzero(may & (jobs == row))
            job = session.job(row)
            most = most_leaving(session, job)
            if claim.together and len(mine) < len(session.tasks_of(job, Status.BOUND)):
                may[mine[most:]] = False
            elif most < 1:
                may[mine] = False
        return may

    # -- the end of a window

    def _leaving(self) -> Iterable[Departure]:
        """Pods on nodes of closed zones, job by job: surplus as its budget allows, then the whole gang."""
        session = self._session
        by_job: dict[int, tuple[str, list[int]]] = {}
        for zone in self._zones:
            if zone.known and not zone.opening.is_open:
                for task in self._on(zone.nodes):
                    by_job.setdefault(int(session.snapshot.tasks.job[task]), (zone.name, []))[1].append(task)
        due = session.next_round(NAME, self._period)
        if by_job and due > session.now:
            session.wake(due)
            return
        for row, (zone_name, tasks) in sorted(by_job.items()):
            job = session.job(row)
            most = most_leaving(session, job)
            if session.config.tenants is Tenants.UNTRUSTED:
                most = max(most, 1)
            if most < 1:
                continue
            going = surplus_for(session, sorted(tasks, reverse=True), most) or unit_for(session, tasks)
            if going:
                yield Departure(going, self._why(job, len(going), zone_name))
                if set(tasks) - set(going):
                    session.wake(session.now + self._period)

    def _why(self, job: Job, count: int, zone: str) -> str:
        ended = f"revoked: {counted(count, 'pod')} of `{job.key}`: the hours of revocable zone `{zone}` have ended"
        wrong = job.budget.problem if job.budget is not None else ""
        return f"{ended}; its budget is ignored: {wrong}" if wrong else ended

    def _on(self, nodes: Mask) -> list[int]:
        """The running pods on some nodes that must leave when their hours end, by number."""
        session = self._session
        table = session.snapshot.tasks
        rows = session.state.node
        there = (session.state.status == Status.BOUND) & (table.status == Status.BOUND) & (rows >= 0) & nodes[rows]
        found = np.flatnonzero(there)
        # Whoever takes her word back while her pod runs: it counts up to the share of her queue.
        beyond, tasks = unprotected(session, found).tolist(), table.tasks
        return [
            t
            for t, must in zip(found.tolist(), beyond, strict=True)
            if must or (tasks[t].preemptable and (tasks[t].yields or tasks[t].shape.revocable))
        ]


def most_leaving(session: Session, job: Job) -> int:
    """How many pods of a job may leave now by the budget that it states; without one, 1."""
    budget = job.budget
    if budget is None or budget.problem:
        return WITHOUT_BUDGET
    total, running = int(session.snapshot.jobs.sizes[job.index]), len(session.tasks_of(job, Status.BOUND))
    if budget.stays:
        return max(running - budget.of(total), 0)
    ended = len(session.tasks_of(job, Status.SUCCEEDED, Status.FAILED))
    return max(budget.of(total) - (total - ended - running), 0)
