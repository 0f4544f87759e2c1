"""From a plan to elastic jobs: sizes, suspensions and what their owners see, written to the jobs' own objects.

A part of the outbox. The order is Voda's: halts, scale-ins, starts, scale-outs, and the last two are not written
before all of the first two have arrived: at no moment do jobs ask for more than there is. If one of those is refused,
nothing grows; the next cycle decides anew. What is decided is laid over the picture at once, so that the next cycle
sees it, and goes when a watch shows it or when the API server refuses. Notes for the owner (how many workers, how many
are planned, why) and held room go with the size in one patch, or alone, and only when they change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from maar.controller.cache import Cache
from maar.controller.subjects import Subjects
from maar.kube.client.errors import Conflict, NotFound
from maar.kube.kinds import Identity
from maar.kube.kinds.elastic import Kept, write_holds
from maar.kube.kinds.kind import Wanted
from maar.kube.picture.elastic_jobs import ElasticJob
from maar.kube.read.elastic import AssumedJob
from maar.kube.wire import annotations as known
from maar.kube.write.events import Reference
from maar.kube.write.executor import Done, Failed, Outcome, Work
from maar.kube.write.resize import AnnotateJob, ChangeJob
from maar.model.elastic import Past
from maar.model.plan import Plan, Target

Submit = Callable[[Work, Callable[[Outcome], None]], None]
Emit = Callable[[Reference, str, str, str], None]
Holds = tuple[tuple[str, int], ...]


class Change(NamedTuple):
    """One job's new size."""

    job: str
    size: int | None
    """`None`: as it is."""
    suspended: bool
    past: Past
    why: str


class Prepared(NamedTuple):
    """A write that is ready to be sent, and what is to be done when it has arrived."""

    identity: Identity
    work: ChangeJob
    done: Callable[[Outcome], None]


class Resizes:
    """Carries out what a plan says of elastic jobs."""

    def __init__(
        self, cache: Cache, subjects: Subjects, submit: Submit, emit: Emit, trigger: Callable[[], None]
    ) -> None:
        self._cache = cache
        self._subjects = subjects
        self._submit = submit
        self._emit = emit
        self._trigger = trigger
        self._noted: dict[str, Target] = {}
        """What was last said to each job's owner."""
        self._going_down = 0
        """Halts and scale-ins that have not arrived yet."""
        self._waiting: dict[str, Prepared] = {}
        """Starts and scale-outs that wait for them, by job."""
        self.on_written: list[Callable[[ElasticJob, Change, ChangeJob], None]] = []
        """Told of changes that have arrived."""

    def send(self, plan: Plan) -> None:
        """Carry out a plan's sizes, holds and notes."""
        for key in (key for key, changed in self._cache.changed.items() if changed is None):
            self._noted.pop(key, None)
        notes = self._notes(plan)
        down, up = changes(plan)
        for change in down:
            self._go_down(change, notes)
        for change in up:
            prepared = self._prepare(change, notes)
            if prepared is not None:
                self._waiting[change.job] = prepared
        for job, said in notes.items():
            self._note(job, said)
        self._go_up()

    # -- sizes

    def _go_down(self, change: Change, notes: dict[str, Said]) -> None:
        prepared = self._prepare(change, notes)
        if prepared is None:
            return
        self._waiting.pop(change.job, None)
        self._going_down += 1

        def arrived(outcome: Outcome) -> None:
            self._going_down -= 1
            prepared.done(outcome)
            if isinstance(outcome, Failed):
                self._stay()
            self._go_up()

        self._submit(prepared.work, arrived)

    def _go_up(self) -> None:
        """Start and grow, unless something has yet to make room."""
        if self._going_down:
            return
        waiting, self._waiting = self._waiting, {}
        for prepared in waiting.values():
            self._submit(prepared.work, prepared.done)

    def _stay(self) -> None:
        """Somebody did not make room: nothing that waits for it is written, and the next cycle decides anew."""
        for job, prepared in self._waiting.items():
            self._noted.pop(job, None)
            self._cache.forget_job(prepared.identity)
        self._waiting.clear()
        self._trigger()

    def _prepare(self, change: Change, notes: dict[str, Said]) -> Prepared | None:
        found = self._cache.picture.elastic_job(change.job)
        if found is None:
            return None
        said = notes.pop(change.job, Said(found.standing.holds, {}))
        was = found.standing
        kept = kept_after(found, change)
        wanted = Wanted(was.size if change.size is None else change.size, change.suspended, kept, said.annotations)
        resource, before = self._subjects.of_elastic(found).resource, (was.size, was.suspended)
        work = ChangeJob(found.kind, resource, found.item, found.spec, found.made, before, wanted)
        assumed = self._assume(found, wanted.size, wanted.suspended, kept, said.holds)

        def done(outcome: Outcome) -> None:
            self._settle(change.job, found.identity, assumed, outcome)
            self._tell(found, change, work, outcome)

        return Prepared(found.identity, work, done)

    def _settle(self, job: str, identity: Identity, assumed: AssumedJob | None, outcome: Outcome) -> None:
        """What was assumed has come true, or not."""
        if isinstance(outcome, Failed):
            self._noted.pop(job, None)
            if assumed is not None:
                self._cache.forget_job(identity)
        elif outcome.version and assumed is not None:
            self._cache.picture.elastic.wrote(identity, assumed, outcome.version)

    def _tell(self, found: ElasticJob, change: Change, work: ChangeJob, outcome: Outcome) -> None:
        regarding = self._subjects.of_elastic(found).reference
        if isinstance(outcome, Done):
            self._emit(regarding, "Normal", *_said_of(work, change))
            for listener in self.on_written:
                listener(found, change, work)
            return
        if isinstance(outcome.error, (Conflict, NotFound)) or not outcome.final:
            self._trigger()
        else:
            self._emit(regarding, "Warning", "FailedResize", str(outcome.error))

    def _assume(self, found: ElasticJob, size: int, suspended: bool, kept: Kept, holds: Holds) -> AssumedJob:
        assumed = AssumedJob(found.item.metadata.uid, size, suspended, kept, holds)
        self._cache.picture.elastic.assume(found.identity, assumed)
        return assumed

    # -- notes and holds

    def _notes(self, plan: Plan) -> dict[str, Said]:
        """What has changed of notes and holds, by job."""
        holds: dict[str, dict[str, int]] = {}
        for hold in plan.hold:
            of = holds.setdefault(hold.job, {})
            of[hold.node] = of.get(hold.node, 0) + hold.count
        jobs = self._cache.latest.jobs
        held = {job.key for job in jobs.jobs if job.elastic is not None and job.elastic.holds}
        targets = {target.job: target for target in plan.targets if self._noted.get(target.job) != target}
        found: dict[str, Said] = {}
        for key in sorted(holds.keys() | held | targets.keys()):
            job = self._cache.picture.elastic_job(key)
            if job is not None:
                kept = tuple(sorted(holds.get(key, {}).items()))
                found[key] = Said(kept, self._annotations(job, kept, targets.get(key)))
        return found

    def _annotations(self, job: ElasticJob, holds: Holds, target: Target | None) -> dict[str, str | None]:
        """Those that are to change."""
        said: dict[str, str | None] = {}
        if holds != job.standing.holds:
            said[known.HOLDS] = write_holds(holds)
        if target is not None:
            # What was said last may be on its way still: then the object does not show it yet.
            last = self._noted.get(target.job)
            there = job.item.metadata.annotations if last is None else _notes(last)
            self._noted[target.job] = target
            said.update({key: value for key, value in _notes(target).items() if there.get(key, "") != value})
        return said

    def _note(self, key: str, said: Said) -> None:
        found = self._cache.picture.elastic_job(key)
        if found is None or not said.annotations:
            return
        was, assumed = found.standing, None
        if known.HOLDS in said.annotations:
            assumed = self._assume(found, was.size, was.suspended, was.kept, said.holds)
        self._submit(
            AnnotateJob(self._subjects.of_elastic(found).path, said.annotations),
            lambda outcome: self._settle(key, found.identity, assumed, outcome),
        )


class Said(NamedTuple):
    """What is to be said on a job: all of its held room, and the annotations that change."""

    holds: Holds
    annotations: dict[str, str | None]


def _notes(target: Target) -> dict[str, str]:
    return {known.WORKERS: str(target.size), known.PLANNED: str(target.planned), known.WHY: target.why}


def changes(plan: Plan) -> tuple[list[Change], list[Change]]:
    """Halts and scale-ins, which make room; starts and scale-outs, which need it."""
    sizes = [(r, Change(r.job, r.after, False, r.past, r.why)) for r in plan.resize]
    halts = [Change(s.job, None, True, s.past, s.why) for s in plan.suspend]
    starts = [Change(r.job, r.size, False, r.past, r.why) for r in plan.resume]
    down = [change for r, change in sizes if r.after < r.before]
    up = [change for r, change in sizes if r.after >= r.before]
    return [*halts, *down], [*starts, *up]


def kept_after(found: ElasticJob, change: Change) -> Kept:
    """What is kept on a job with its new size: the owner's own size survives the first change."""
    was = found.standing
    return Kept(
        **msgspec.structs.asdict(change.past),
        requested=was.kept.requested or was.requested,
        running=not change.suspended,
        rigid=was.rigid,
    )


def _said_of(work: ChangeJob, change: Change) -> tuple[str, str]:
    """The reason and message of an event."""
    why = f": {change.why}" if change.why else ""
    before, suspended = work.before
    if change.suspended:
        return "Suspended", f"suspended{why}"
    if suspended:
        return "Resumed", f"resumed with {work.wanted.size} workers{why}"
    return "Resized", f"from {before} to {work.wanted.size} workers{why}"
