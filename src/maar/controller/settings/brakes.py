"""Brakes on evictions and resizes: paused, capped by rate, or switched off by queue; settable while running.

They filter a plan, all or nothing. If not all victims of a job may be evicted now, the job gets neither the evictions
nor the reserved room. Nor does another job that shares a victim gang with it. Elastic jobs grow into room that other
jobs give back: if one may not shrink now, none grows or starts. A bind that the limit of its queue permits only after
blocked evictions or resizes is blocked too. A job that waits because of the brakes gets that as its reason, and a cycle
looks at it when they change.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Annotated

import msgspec
from msgspec.structs import replace

from maar.model.codes import BRAKED
from maar.model.elastic import Elastic
from maar.model.facts import About, Fact, joined
from maar.model.plan import Cause, Evict, Plan, Reserve, Target, Wait
from maar.model.reasons import Reason
from maar.model.snapshot import Snapshot
from maar.model.words import count as counted
from maar.model.words import unknown
from maar.session.binds_over_limit import uncovered
from maar.session.memory import ROUND
from maar.shards.shard import Standing

logger = logging.getLogger("maar.brakes")

MINUTE = 60.0

Count = Annotated[int, msgspec.Meta(ge=0)]


class BrakeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The settings that the owner of a cluster may change."""

    paused: bool = False
    per_minute: Count | None = None
    """The maximum of evictions in any minute; `None`: no limit."""
    queues_off: tuple[str, ...] = ()
    """Queues whose pods are never evicted, and whose elastic jobs never shrink or stop."""
    resizes_paused: bool = False
    """Elastic jobs keep their sizes; none starts or stops."""
    resizes_per_minute: Count | None = None
    """The maximum of resizes in any minute; `None`: no limit."""


class Brakes:
    """Lets evictions and resizes through, or blocks them."""

    def __init__(self, settings: BrakeSettings | None = None) -> None:
        self.settings = settings or BrakeSettings()
        self._standing: Standing | None = None
        self._looked_at: BrakeSettings | None = None
        self._recent: deque[float] = deque()
        self._resized: deque[float] = deque()
        self.held = 0
        """The number of blocked evictions."""
        self.held_sizes = 0
        """The number of blocked resizes."""

    def apply(self, plan: Plan, snapshot: Snapshot, now: float, standing: Standing | None = None) -> Plan:
        """The plan without the blocked evictions and resizes, and without what depends on them.

        `standing`: of one of several shards: the limits are those of the whole cluster.
        """
        self._standing = standing
        if self._looked_at is not self.settings:
            self._looked_at = self.settings
            self._warn(snapshot)
        for recent in (self._recent, self._resized):
            while recent and recent[0] <= now - MINUTE:
                recent.popleft()
        left = self._evictions(plan, snapshot, now)
        stay = _moving(plan) - _moving(left)
        return _within(plan, self._sizes(left, stay, snapshot, now), snapshot)

    def _warn(self, snapshot: Snapshot) -> None:
        """Warn about names of missing queues: a queue may be created later, but a typo would protect nothing."""
        known = snapshot.queues.number
        for name in self.settings.queues_off:
            if name not in known:
                logger.warning("brakes: queuesOff: %s", unknown("queue", name, known))

    def _evictions(self, plan: Plan, snapshot: Snapshot, now: float) -> Plan:
        if not plan.evict:
            return plan
        by_job: dict[str, list[Evict]] = {}
        for evict in plan.evict:
            by_job.setdefault(evict.beneficiary, []).append(evict)
        stopped: dict[str, str] = {}
        for jobs in _together(plan, snapshot):
            if why := self._held([evict for job in jobs for evict in by_job[job]], snapshot, now):
                stopped.update(dict.fromkeys(jobs, why))
        if not stopped:
            return plan
        of = snapshot.tasks
        left = tuple(e for e in plan.evict if e.beneficiary not in stopped)
        shuffles = any(e.cause is Cause.SHUFFLED for e in left)

        def is_kept(fact: Fact) -> bool:
            # If the brakes keep every pod, the round does not count, and is tried again when they permit it.
            return (shuffles or fact.name != ROUND.name) and not (fact.about is About.JOB and fact.key in stopped)

        return replace(
            plan,
            evict=left,
            facts=joined(snapshot.cluster.facts, plan.facts, is_kept),
            nominate=tuple(n for n in plan.nominate if of.tasks[of.number[n.task]].job not in stopped),
            reserve=tuple(h for h in plan.reserve if h.job not in stopped or _keeps(h.job, snapshot)),
            waiting=tuple(w for w in plan.waiting if w.job not in stopped) + _waits(stopped, by_job, plan),
            wake_at=_first(plan.wake_at, None if self.settings.paused else self._recent),
        )

    def _held(self, evictions: list[Evict], snapshot: Snapshot, now: float) -> str:
        """Why these evictions are blocked now; empty if they are not."""
        table, (limit, whole) = snapshot.tasks, self._limit(self.settings.per_minute, now)
        queues = {snapshot.jobs.jobs[int(table.job[table.number[e.task]])].queue for e in evictions}
        room = limit is None or len(self._recent) + len(evictions) <= limit or (not self._recent and whole)
        off = sorted(queues & set(self.settings.queues_off))
        if self.settings.paused:
            why = "evictions are paused"
        elif off:
            why = f"evictions from queue `{off[0]}` are off"
        elif not room:
            why = f"at most {counted(self.settings.per_minute or 0, 'pod is', 'pods are')} evicted per minute"
        else:
            self._recent.extend([now] * len(evictions))
            return ""
        self.held += len(evictions)
        return why

    def _limit(self, limit: int | None, now: float) -> tuple[int | None, bool]:
        """The limit of this process, and whether it may exceed it for one job that needs more."""
        standing = self._standing
        if limit is None or standing is None:
            return limit, limit is not None and limit > 0
        return share_of(limit, standing.shards, len(standing.owners.members()), now)

    def _sizes(self, plan: Plan, stay: set[str], snapshot: Snapshot, now: float) -> Plan:
        """The plan without blocked resizes. A job in `stay` may not move, so it does not grow elsewhere."""
        stopped = self._stopped(plan, snapshot, now) | {r.job for r in plan.resize if r.job in stay}
        count = len(plan.resize) + len(plan.suspend)
        count += sum(not _is_gang(resume.job, snapshot) for resume in plan.resume)
        self._resized.extend([now] * (count - len(stopped)))
        if not stopped:
            return plan
        self.held_sizes += len(stopped)
        jobs = snapshot.jobs
        found = {key: jobs.jobs[jobs.number[key]].elastic for key in sorted(stopped)}
        elastic = {key: of for key, of in found.items() if of is not None}
        kept = [Reserve.at(key, place, n) for key, of in elastic.items() for place, n in of.reserved]
        return replace(
            plan,
            evict=tuple(e for e in plan.evict if e.cause is not Cause.MIGRATED or e.beneficiary not in stopped),
            resize=tuple(r for r in plan.resize if r.job not in stopped),
            suspend=tuple(s for s in plan.suspend if s.job not in stopped),
            resume=tuple(r for r in plan.resume if r.job not in stopped),
            reserve=(*(h for h in plan.reserve if h.job not in stopped), *kept),
            targets=tuple(_kept(t, elastic[t.job]) if t.job in elastic else t for t in plan.targets),
            wake_at=_first(plan.wake_at, None if self.settings.resizes_paused else self._resized),
        )

    def _stopped(self, plan: Plan, snapshot: Snapshot, now: float) -> set[str]:
        less = {s.job for s in plan.suspend} | {r.job for r in plan.resize if r.after < r.before}
        more = {r.job for r in plan.resume if not _is_gang(r.job, snapshot)}
        more |= {r.job for r in plan.resize if r.after >= r.before}
        (limit, whole), recent = self._limit(self.settings.resizes_per_minute, now), self._resized
        room = limit is None or len(recent) + len(less | more) <= limit or (not recent and whole)
        if self.settings.resizes_paused or not room:
            return less | more
        jobs = snapshot.jobs
        off = {key for key in less if jobs.jobs[jobs.number[key]].queue in self.settings.queues_off}
        return off | more if off else set()


def _keeps(job: str, snapshot: Snapshot) -> bool:
    """Whether room for a job stays reserved although its evictions are blocked: it was given for its size."""
    return snapshot.jobs.jobs[snapshot.jobs.number[job]].elastic is not None and not _is_gang(job, snapshot)


def _is_gang(job: str, snapshot: Snapshot) -> bool:
    """Whether a job is a suspended gang of fixed size: to start it is no change of size."""
    of = snapshot.jobs.jobs[snapshot.jobs.number[job]]
    return of.is_suspended and not of.is_elastic


def _moving(plan: Plan) -> set[str]:
    """The jobs whose own workers move."""
    return {e.beneficiary for e in plan.evict if e.cause is Cause.MIGRATED}


def share_of(limit: int, shards: frozenset[int], of: int, now: float) -> tuple[int, bool]:
    """What some of several shards may do in a minute, so that all together keep a limit in any minute.

    Each has an equal part. What is left over goes to each in turn, for one minute of two, so that two turns are never
    within one minute. Who has its turn may exceed its part for one job that needs more, as one Maar may.
    """
    if shards.issuperset(range(of)):
        return limit, limit > 0
    part, left = divmod(limit, of)
    turn, second = divmod(now, 2 * MINUTE)
    lucky = {(int(turn) + place) % of for place in range(max(left, 1))} if second < MINUTE else set()
    mine = shards & lucky
    return part * len(shards) + min(len(mine), left), bool(mine) and limit > 0


def _together(plan: Plan, snapshot: Snapshot) -> list[list[str]]:
    """The jobs that others are evicted for. Those with victims in one gang are together: it is not left in part."""
    tasks, victims = snapshot.tasks, dict[str, set[int]]()
    for evict in plan.evict:
        victims.setdefault(evict.beneficiary, set()).add(int(tasks.job[tasks.number[evict.task]]))
    groups: list[tuple[list[str], set[int]]] = []
    for job, gangs in victims.items():
        shared = [group for group in groups if group[1] & gangs]
        groups = [group for group in groups if not group[1] & gangs]
        jobs = [other for group in shared for other in group[0]]
        groups.append(([*jobs, job], gangs.union(*(group[1] for group in shared))))
    return [jobs for jobs, _ in groups]


def _within(whole: Plan, part: Plan, snapshot: Snapshot) -> Plan:
    """Without binds that have no room under the limit of their queue."""
    left_out = uncovered(whole, part, snapshot)
    if not left_out:
        return part
    tasks = snapshot.tasks
    told = {wait.job for wait in part.waiting}
    waits = (Wait(job, (_full(queue),)) for job, queue in sorted(left_out.items()) if job not in told)
    return replace(
        part,
        bind=tuple(b for b in part.bind if tasks.tasks[tasks.number[b.task]].job not in left_out),
        resume=tuple(r for r in part.resume if r.job not in left_out),
        reserve=tuple(h for h in part.reserve if h.job not in left_out),
        waiting=(*part.waiting, *waits),
    )


def _full(queue: str) -> Reason:
    what = f"queue `{queue}` has no room before evictions or resizes that the brakes block"
    return Reason("maar", BRAKED.name, what, queue=queue)


def _kept(target: Target, elastic: Elastic) -> Target:
    """The target for the owner of a job whose resize is blocked."""
    return replace(target, size=0 if elastic.suspended else elastic.size, why=f"{target.why}; blocked by the brakes")


def _waits(stopped: dict[str, str], by_job: dict[str, list[Evict]], plan: Plan) -> tuple[Wait, ...]:
    """The reasons of jobs whose evictions are blocked: no room is being made for them."""
    since = {w.job: w.reasons[0].since for w in plan.waiting if w.reasons}
    return tuple(Wait(job, (_braked(len(by_job[job]), why, since.get(job)),)) for job, why in sorted(stopped.items()))


def _braked(count: int, why: str, since: float | None) -> Reason:
    evictions = counted(count, "eviction")
    return Reason("maar", BRAKED.name, f"needs {evictions}: {why}", since=since, lasting=f"needs evictions: {why}")


def _first(planned: float | None, recent: deque[float] | None) -> float | None:
    """When to decide again: as planned, or when the rate limit permits more."""
    return min(filter(None, (planned, recent[0] + MINUTE if recent else None)), default=None)
