"""From a plan to elastic jobs: writes sizes, suspensions and notes for the owner to the jobs' own objects.

This is part of the outbox. The order is Voda's: halts, scale-ins, starts, scale-outs. Starts and scale-outs are written
only after all halts and scale-ins are written, so that jobs never request more than the cluster has. If one of those is
refused, nothing grows, and the next cycle decides again. A job whose queue has room only after evictions waits for
these too (`limits`). A decision is assumed in the picture at once, so that the next cycle sees it, until a watch shows
it or the API server refuses it. Notes for the owner (current workers, planned workers, why) and reserved room are
written together with the size. Reserved room that changes alone is written at once. Notes that change alone are live
numbers: all jobs together get one per second, one namespace after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import msgspec

from maar.controller.reporting.write_rates import Pace
from maar.controller.snapshots.cycle import Cycle
from maar.controller.snapshots.pool_times import PoolTimes
from maar.controller.writing.limits import LimitedWrites
from maar.controller.writing.refusals import Restless
from maar.kube.client.errors import Conflict, NotFound
from maar.kube.kinds import Identity
from maar.kube.kinds.elastic import Kept, write_reserved
from maar.kube.kinds.kind import WantedState
from maar.kube.picture.elastic_jobs import ElasticJob, Untrue
from maar.kube.picture.job_objects import of_elastic
from maar.kube.picture.picture import Picture
from maar.kube.read.elastic import AssumedJob
from maar.kube.wire import annotations as known
from maar.kube.wire.references import Reference
from maar.kube.write.executor import OFTEN, Done, Failed, Outcome, Work
from maar.kube.write.resize import AnnotateJob, ChangeJob
from maar.model.elastic import Past
from maar.model.plan import Plan, Target
from maar.model.words import count, number

Submit = Callable[[Work, Callable[[Outcome], None]], None]
Emit = Callable[[Reference, str, str, str], None]
Reserved = tuple[tuple[str, int], ...]
NOTES_EVERY = 1.0
"""Seconds between two notes that change alone, of all jobs together."""


DODGES = 2
"""Decisions in a row in which a job may change before it is made smaller, whatever its version; tuned by hand."""

RESIZE = "resize"
"""In the table of problems: a job whose size could not be written."""


class SizeChange(NamedTuple):
    """The new size of one job."""

    job: str
    size: int | None
    """`None`: unchanged."""
    suspended: bool
    past: Past
    why: str


class Prepared(NamedTuple):
    """A write that is ready to be sent, and a callback for its outcome."""

    identity: Identity
    work: ChangeJob
    done: Callable[[Outcome], None]


@dataclass(eq=False, slots=True)
class Resizes:
    """Carries out the decisions of a plan about elastic jobs."""

    _picture: Picture
    _pool_times: PoolTimes
    _submit: Submit
    _emit: Emit
    _trigger: Callable[[], None]
    _restless: Restless
    _limited: LimitedWrites
    _dodged: Counter[str] = field(default_factory=Counter)
    """For how many decisions in a row a job had changed before it could be made smaller."""
    _noted: dict[str, Target] = field(default_factory=dict)
    """The last note to the owner of each job; the job that was noted longest ago comes first."""
    _pace: Pace = field(default_factory=lambda: Pace(NOTES_EVERY))
    _has_notes: bool = False
    """Whether notes wait for their turn."""
    _going_down: int = 0
    """Halts and scale-ins that are not done yet."""
    _waiting: dict[str, Prepared] = field(default_factory=dict)
    """Starts and scale-outs that wait for halts and scale-ins, by job."""
    on_written: list[Callable[[ElasticJob, SizeChange, ChangeJob], None]] = field(default_factory=list)
    """Called for changes that were written."""

    def send(self, cycle: Cycle) -> None:
        """Carry out a plan's sizes, reserved room and notes."""
        plan, now = cycle.plan, cycle.now
        self._pool_times.decide(plan, now)
        for key in (key for key, changed in cycle.changed.items() if changed is None):
            self._noted.pop(key, None)
            self._dodged.pop(key, None)
        notes = self._notes(cycle)
        down, up = changes(plan)
        isolated = self._picture.problems.isolated
        for change in down:
            sent = False
            with isolated(RESIZE, change.job):
                sent = self._go_down(change, notes)
            if not sent:
                self._limited.shrunk(change.job, accepted=False)
        for change in up:
            with isolated(RESIZE, change.job):
                prepared = self._prepare(change, notes)
                if prepared is not None:
                    self._waiting[change.job] = prepared
        self._write_notes(notes, now)
        self._correct_notes(now)
        self._go_up()

    def due(self, now: float) -> float | None:
        """When a note is due because of time alone."""
        return max(self._pace.due(), now) if self._has_notes else None

    def unsent(self) -> set[str]:
        """The paths of jobs that will start or grow as soon as there is room."""
        return {prepared.work.key for prepared in self._waiting.values()}

    # -- sizes

    def _go_down(self, change: SizeChange, notes: dict[str, SizeNote]) -> bool:
        """Send a halt or scale-in; whether there is an object to write to."""
        prepared = self._prepare(change, notes, firm=self._dodged[change.job] >= DODGES)
        if prepared is None:
            return False
        self._waiting.pop(change.job, None)
        self._going_down += 1

        def arrived(outcome: Outcome) -> None:
            self._going_down -= 1
            prepared.done(outcome)
            if isinstance(outcome, Failed):
                self._cancel_growth()
                self._dodged[change.job] += isinstance(outcome.error, Conflict)
            else:
                self._dodged.pop(change.job, None)
            self._limited.shrunk(change.job, accepted=not isinstance(outcome, Failed))
            self._go_up()

        self._submit(prepared.work, arrived)
        return True

    def _go_up(self) -> None:
        """Send starts and scale-outs, unless a halt or scale-in is not done yet."""
        if self._going_down:
            return
        for job in [job for job in self._waiting if not self._limited.holds_job(job)]:
            prepared = self._waiting.pop(job)
            self._submit(prepared.work, partial(self._grown, job, prepared))

    def _grown(self, job: str, prepared: Prepared, outcome: Outcome) -> None:
        """A start or scale-out was written, or refused: an owner who changes the job all the time delays only it."""
        if isinstance(outcome, Done):
            self._restless.started(job)
        elif isinstance(outcome.error, Conflict):
            self._restless.refused(job, often=outcome.error.reason == OFTEN)
        prepared.done(outcome)

    def grow(self, job: str, may: bool) -> None:
        """The queue of a job has room for it now, or will not get it."""
        if may:
            self._go_up()
        elif job in self._waiting:
            self._cancel(job)
            self._trigger()

    def _cancel_growth(self) -> None:
        """Cancel starts and scale-outs after a refused halt or scale-in; the next cycle decides again."""
        for job in list(self._waiting):
            self._cancel(job)
        self._trigger()

    def _cancel(self, job: str) -> None:
        prepared = self._waiting.pop(job)
        self._noted.pop(job, None)
        self._picture.elastic.assumed.forget(prepared.identity)
        self._pool_times.settle(job, made=False)

    def _prepare(self, change: SizeChange, notes: dict[str, SizeNote], *, firm: bool = False) -> Prepared | None:
        found = self._picture.elastic_job(change.job)
        if found is None:
            self._pool_times.settle(change.job, made=False)
            return None
        note = notes.pop(change.job, SizeNote(found.standing.reserved, {}))
        self._keep(change.job, note)
        if by_hand := _by_hand(found):
            change = change._replace(why=f"{by_hand}: {change.why}" if change.why else by_hand)
            note.annotations[known.WHY] = change.why
        standing = found.standing
        kept = kept_after(found, change)
        size = standing.size if change.size is None else change.size
        wanted = WantedState(size, change.suspended, kept, note.annotations, firm)
        resource, before = of_elastic(self._picture, found).resource, (standing.size, standing.suspended)
        work = ChangeJob(found.kind, resource, found.item, found.spec, found.made, before, wanted)
        assumed = self._assume(found, wanted.size, wanted.suspended, kept, note.reserved)

        def done(outcome: Outcome) -> None:
            self._settle(change.job, found.identity, assumed, outcome)
            self._report(found, change, work, outcome)

        return Prepared(found.identity, work, done)

    def _settle(self, job: str, identity: Identity, assumed: AssumedJob | None, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self._noted.pop(job, None)
            if assumed is not None:
                self._picture.elastic.assumed.forget(identity)
        elif outcome.version and assumed is not None:
            self._picture.elastic.wrote(identity, assumed, outcome.version)

    def _report(self, found: ElasticJob, change: SizeChange, work: ChangeJob, outcome: Outcome) -> None:
        regarding = of_elastic(self._picture, found).reference
        self._pool_times.settle(change.job, made=isinstance(outcome, Done))
        if isinstance(outcome, Done):
            self._emit(regarding, "Normal", *_event_of(work, change))
            for listener in self.on_written:
                listener(found, change, work)
            return
        if isinstance(outcome.error, (Conflict, NotFound)) or not outcome.final:
            self._trigger()
        else:
            self._emit(regarding, "Warning", "FailedResize", str(outcome.error))

    def _assume(self, found: ElasticJob, size: int, suspended: bool, kept: Kept, reserved: Reserved) -> AssumedJob:
        assumed = AssumedJob(found.item.metadata.uid, size, suspended, kept, reserved)
        self._picture.elastic.assumed.assume(found.identity, assumed)
        return assumed

    # -- notes and reserved room

    def _notes(self, cycle: Cycle) -> dict[str, SizeNote]:
        plan, jobs = cycle.plan, cycle.snapshot.jobs
        reserved: dict[str, dict[str, int]] = {}
        for reserve in plan.reserve:
            of = reserved.setdefault(reserve.job, {})
            of[reserve.place] = of.get(reserve.place, 0) + reserve.count
        before = {job.key for job in jobs.jobs if job.elastic is not None and job.elastic.reserved}
        before = {job for job in before if cycle.own.has_job(job)}
        targets = {target.job: target for target in plan.targets if self._noted.get(target.job) != target}
        found: dict[str, SizeNote] = {}
        for key in sorted(reserved.keys() | before | targets.keys()):
            with self._picture.problems.isolated(RESIZE, key):
                job = self._picture.elastic_job(key)
                if job is not None:
                    kept = tuple(sorted(reserved.get(key, {}).items()))
                    found[key] = SizeNote(kept, self._annotations(job, kept, targets.get(key)), targets.get(key))
        return found

    def _annotations(self, job: ElasticJob, reserved: Reserved, target: Target | None) -> dict[str, str | None]:
        changed: dict[str, str | None] = {}
        if reserved != job.standing.reserved:
            changed[known.HOLDS] = write_reserved(reserved)
        if target is not None:
            # The last note may still be in flight, so that the object does not show it yet.
            last = self._noted.get(target.job)
            shown = job.item.metadata.annotations if last is None else _notes(last)
            wanted = _notes(target)
            changed.update({key: value or None for key, value in wanted.items() if shown.get(key, "") != value})
        return changed

    def _write_notes(self, notes: dict[str, SizeNote], now: float) -> None:
        """Write reserved room that has changed, and the notes of one job."""
        order = {job: place for place, job in enumerate(self._noted)}
        turn = {job.partition("/")[0]: place for job, place in order.items()}
        self._has_notes = False
        for job in sorted(notes, key=lambda job: (turn.get(job.partition("/")[0], -1), order.get(job, -1), job)):
            note = notes[job]
            if not note.annotations:
                self._keep(job, note)
            elif known.HOLDS in note.annotations or self._pace.take(now):
                with self._picture.problems.isolated(RESIZE, job):
                    self._write_note(job, note)
            else:
                self._has_notes = True

    def _correct_notes(self, now: float) -> None:
        """Write the truth on jobs whose owner has suspended them, or has taken them from Maar."""
        untrue = self._picture.elastic.untrue
        for place, found in sorted(untrue.items(), key=lambda item: item[0][1]):
            if not self._pace.take(now):
                self._has_notes = True
                return
            del untrue[place]
            # What was noted before is not on the object any more.
            for job in [job for job in self._noted if self._picture.elastic_job(job) is None]:
                del self._noted[job]

            def done(outcome: Outcome, found: Untrue = found) -> None:
                if isinstance(outcome, Failed):  # unless a watch has shown it since, which looks again
                    untrue.setdefault(found.owner.place, found)

            path = self._picture.path(found.owner.kind, found.owner.item)
            self._submit(AnnotateJob(path, found.notes), done)

    def _keep(self, job: str, note: SizeNote) -> None:
        """Remember that a note is written, or on its way."""
        if note.target is not None:
            self._noted.pop(job, None)
            self._noted[job] = note.target

    def _write_note(self, key: str, note: SizeNote) -> None:
        found = self._picture.elastic_job(key)
        if found is None:
            return
        self._keep(key, note)
        standing, assumed = found.standing, None
        if known.HOLDS in note.annotations:
            assumed = self._assume(found, standing.size, standing.suspended, standing.kept, note.reserved)
        self._submit(
            AnnotateJob(of_elastic(self._picture, found).path, note.annotations),
            lambda outcome: self._settle(key, found.identity, assumed, outcome),
        )


class SizeNote(NamedTuple):
    """What to write on a job: all of its reserved room, and the annotations that change."""

    reserved: Reserved
    annotations: dict[str, str | None]
    target: Target | None = None
    """What the annotations tell the owner."""


def _notes(target: Target) -> dict[str, str]:
    return {known.WORKERS: str(target.size), known.PLANNED: str(target.planned), known.WHY: target.why}


def changes(plan: Plan) -> tuple[list[SizeChange], list[SizeChange]]:
    """Halts and scale-ins, which free room; starts and scale-outs, which need it."""
    sizes = [(r, SizeChange(r.job, r.after, False, r.past, r.why)) for r in plan.resize]
    halts = [SizeChange(s.job, None, True, s.past, s.why) for s in plan.suspend]
    starts = [SizeChange(r.job, r.size, False, r.past, r.why) for r in plan.resume]
    down = [change for r, change in sizes if r.after < r.before]
    up = [change for r, change in sizes if r.after >= r.before]
    return [*halts, *down], [*starts, *up]


def kept_after(found: ElasticJob, change: SizeChange) -> Kept:
    """The data kept on a job with its new size; the owner's requested size survives the first change."""
    standing = found.standing
    return Kept(
        **msgspec.structs.asdict(change.past),
        requested=standing.kept.requested or standing.requested,
        running=not change.suspended,
        rigid=standing.rigid,
        written=standing.size if change.size is None else change.size,
    )


def _by_hand(found: ElasticJob) -> str:
    """The words that somebody else set the size that Maar is about to change; empty if no one did."""
    spec = found.spec
    if found.standing != spec or spec.suspended or spec.kept.written in (0, spec.size):
        return ""
    by_hand = count(spec.size, "worker was", "workers were")
    return f"{by_hand} set by hand, but Maar decides how many between {spec.min} and {spec.max}"


def _event_of(work: ChangeJob, change: SizeChange) -> tuple[str, str]:
    why = f": {change.why}" if change.why else ""
    before, suspended = work.before
    if change.suspended:
        return "Suspended", f"suspended{why}"
    if suspended:
        return "Resumed", f"resumed with {count(work.wanted.size, 'worker')}{why}"
    return "Resized", f"from {number(before)} to {count(work.wanted.size, 'worker')}{why}"
