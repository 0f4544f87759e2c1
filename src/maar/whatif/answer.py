"""What would happen if: the plan before and after some edits, and the difference between the two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from maar.config.config import Config
from maar.model.jobs import Job
from maar.model.plan import Plan
from maar.model.reasons import Reason
from maar.model.snapshot import Cluster, Snapshot
from maar.shards.shard import Standing, decide_as
from maar.whatif.edit import Edit, Scene
from maar.whatif.edits import applied, in_words
from maar.whatif.started import PlanOutcome


class Decided(NamedTuple):
    """One plan, what it was decided for, and how far it brings each job."""

    snapshot: Snapshot
    plan: Plan
    outcome: PlanOutcome


class Eviction(msgspec.Struct, frozen=True):
    """Pods of one job that would be evicted for another."""

    job: str
    pods: tuple[str, ...]
    beneficiary: str
    reason: str


class Sizes(msgspec.Struct, frozen=True):
    """The size of an elastic job: now, by the plan without the edits, and by the plan with them. 0: suspended."""

    job: str
    now: int
    before: int
    after: int


class OtherReasons(msgspec.Struct, frozen=True):
    """Why a job waits, without the edits and with them; empty: it does not wait, or does not exist."""

    job: str
    before: tuple[Reason, ...]
    after: tuple[Reason, ...]


class Answer(msgspec.Struct, frozen=True):
    """The difference that edits make. Jobs are sorted by key."""

    edits: tuple[str, ...]
    """In words."""
    before: Plan
    after: Plan
    starts: tuple[str, ...] = ()
    """Jobs that start only with the edits, also those whose room is still being freed."""
    stays: tuple[str, ...] = ()
    """Jobs that no longer start."""
    evicted: tuple[Eviction, ...] = ()
    """Evictions only with the edits."""
    spared: tuple[Eviction, ...] = ()
    """Evictions only without the edits."""
    resized: tuple[Sizes, ...] = ()
    """Elastic jobs whose size differs between the two plans."""
    reasons: tuple[OtherReasons, ...] = ()
    moved: dict[str, str] = {}
    """The job of each pod that the plan with the edits moves."""


def what_if(
    cluster: Cluster,
    config: Config,
    now: float,
    edits: Sequence[Edit],
    standing: Standing | None = None,
    before: Callable[[], Decided] | None = None,
) -> Answer:
    """What edits would change in the plan of this moment. An edit that cannot be made is an `EditError`.

    `before` returns the plan without edits, if the caller has it.
    """
    scene = Scene(cluster, config, standing)
    after = applied(scene, edits)
    known = decided(scene, now) if before is None else before()
    return difference(known, decided(after, now), in_words(scene, edits))


def decided(scene: Scene, now: float) -> Decided:
    """The plan for a scene, with the reasons of waiting jobs."""
    return decided_on(Snapshot(scene.cluster), scene, now)


def decided_on(snapshot: Snapshot, scene: Scene, now: float) -> Decided:
    """The plan for a snapshot, with the configuration of a scene."""
    plan = decide_as(scene.standing, snapshot, scene.config, now).plan
    return Decided(snapshot, plan, PlanOutcome(snapshot, scene.config, plan))


def started(of: Decided) -> frozenset[str]:
    """The jobs that have waited for something, and have their minimum after the plan."""
    jobs = (of.snapshot.jobs.jobs[row].key for row in of.snapshot.jobs.active)
    return frozenset(key for key in jobs if of.outcome.of(key).ok)


def difference(before: Decided, after: Decided, edits: Iterable[str] = ()) -> Answer:
    """The difference between two plans. A job that is in one of them only counts as waiting in the other."""
    started = {key for key in before.snapshot.jobs.number if before.outcome.of(key).ok}
    starts = {key for key in after.snapshot.jobs.number if after.outcome.of(key).ok}
    evicted, spared = _evictions(after), _evictions(before)
    sizes, planned = _sizes(before), _sizes(after)
    now = {job.key: job.elastic.now for job in after.snapshot.jobs.jobs if job.elastic is not None}
    why, reasons = ({wait.job: wait.reasons for wait in d.plan.waiting} for d in (before, after))
    return Answer(
        tuple(edits),
        before.plan,
        after.plan,
        starts=tuple(sorted(starts - started)),
        stays=tuple(sorted((started & set(after.snapshot.jobs.number)) - starts)),
        evicted=tuple(evicted[key] for key in sorted(set(evicted) - set(spared))),
        spared=tuple(spared[key] for key in sorted(set(spared) - set(evicted))),
        resized=tuple(
            Sizes(job, now[job], sizes.get(job, 0), planned[job])
            for job in sorted(planned)
            if planned[job] != sizes.get(job, 0)
        ),
        reasons=tuple(
            OtherReasons(job, why.get(job, ()), reasons.get(job, ()))
            for job in sorted({*why, *reasons})
            if _said(why.get(job, ())) != _said(reasons.get(job, ()))
        ),
        moved=_moved(after),
    )


def losers(before: Decided, after: Decided, starts: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Jobs that lose pods or workers only by the second plan, and those of `starts` that no longer start by it."""
    evicted, spared = _evictions(after), _evictions(before)
    there = [job for job in after.snapshot.jobs.jobs if job.elastic is not None]
    sizes, planned = _sizes(before), _sizes(after)
    lose = {job.key for job in there if planned[job.key] < min(sizes.get(job.key, 0), _now(job))}
    lose.update(evicted[key].job for key in evicted.keys() - spared.keys())
    known = after.snapshot.jobs.number
    stays = (key for key in starts if key in known and key not in lose and not after.outcome.of(key).ok)
    return tuple(sorted(lose)), tuple(sorted(stays))


def _now(job: Job) -> int:
    assert job.elastic is not None
    return job.elastic.now


def _moved(of: Decided) -> dict[str, str]:
    tasks, plan = of.snapshot.tasks, of.plan
    pods = (move.task for moves in (plan.bind, plan.nominate, plan.evict) for move in moves)
    return {pod: tasks.tasks[tasks.number[pod]].job for pod in pods}


def _evictions(of: Decided) -> dict[tuple[str, str, tuple[str, ...]], Eviction]:
    tasks, pods = of.snapshot.tasks, dict[tuple[str, str, str], list[str]]()
    for evict in of.plan.evict:
        job = tasks.tasks[tasks.number[evict.task]].job
        pods.setdefault((job, evict.beneficiary, evict.reason), []).append(evict.task)
    made = (Eviction(job, tuple(sorted(names)), whom, why) for (job, whom, why), names in pods.items())
    return {(e.job, e.beneficiary, e.pods): e for e in made}


def _sizes(of: Decided) -> dict[str, int]:
    """The size of each elastic job after the plan."""
    sizes = {job.key: job.elastic.now for job in of.snapshot.jobs.jobs if job.elastic is not None}
    sizes.update((resize.job, resize.after) for resize in of.plan.resize)
    sizes.update((resume.job, resume.size) for resume in of.plan.resume)
    sizes.update((suspend.job, 0) for suspend in of.plan.suspend)
    return sizes


def _said(reasons: tuple[Reason, ...]) -> tuple[tuple[str, str, str], ...]:
    return tuple((r.plugin, r.code, r.words) for r in reasons)
