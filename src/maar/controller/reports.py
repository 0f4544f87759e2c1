"""What users see on their own objects: phases, reasons and counts, written only when they change.

`report` is pure: from one job after a plan, and the record of what was last written about it, to the writes that are
due and the new record. `Reports` keeps the records. A reason must hold for a moment before it is written, because most
jobs of a burst wait only until their last pod is created.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec.structs import replace

from maar.controller.cache import Cache
from maar.controller.subjects import Subject, Subjects
from maar.controller.tallies import MOMENT, Tallies, tally
from maar.kube.kinds.cluster import QUEUES
from maar.kube.kinds.status import Tally
from maar.kube.picture.picture import PodGroup
from maar.kube.write.status import QueueStatus, unschedulable
from maar.kube.write.work import Patch
from maar.model.jobs import Job, Phase
from maar.model.plan import Plan, Wait
from maar.model.reasons import in_one_line
from maar.model.tasks import Status, Task
from maar.session.state import queue_sums

STANDS = 1.0
"""Seconds for which a reason must hold before it is written; tuned by hand."""
REPORT = "report"
"""In the table of problems: a job about which nothing could be written."""
INCOMPLETE = ("NoPods", "NotEnoughTasks", "NotEnoughPodsOfTask")
"""Reasons that disappear while a gang's pods are being created: they must hold for `A_WHILE`."""
A_MOMENT = 1.5
"""Seconds by which the write of an admission is delayed if no controller waits for it: often the gang runs by then;
tuned by hand."""
A_WHILE = 5.0
"""Seconds of further delay once the group has pods: no reader needs it, and most gangs run by then; tuned by hand."""
WAITING = (Status.PENDING, Status.NOMINATED, Status.BLOCKED)


class Admission(msgspec.Struct, frozen=True):
    """A group's admission that is decided and not written yet."""

    due: float
    late: bool = False
    """The group has pods, so the write is delayed further."""


class Record(msgspec.Struct, frozen=True):
    """What was last written about one job, and what is still to be written."""

    group: str = ""
    """UID of the group that was last written."""
    in_status: str = ""
    """What the group's status shows: a phase, or a reason."""
    on_pods: str = ""
    """The reason on the job's waiting pods."""
    in_event: str = ""
    """The reason in the last event."""
    tally: Tally | None = None
    reason: str = ""
    """Why the job waits, as of the last cycle that looked at it."""
    code: str = ""
    """The code of the first of its reasons."""
    stands_at: float = 0.0
    """When the reason has held long enough to be written."""
    admission: Admission | None = None

    def due(self, now: float) -> float | None:
        """When a write is due because of time alone."""
        moments = (self.reason and self.stands_at, self.admission and self.admission.due)
        return min((moment for moment in moments if moment and moment > now), default=None)


class Seen(msgspec.Struct, frozen=True):
    """One job after a plan."""

    job: Job
    phase: Phase
    """After the plan is carried out."""
    subject: Subject | None = None
    wait: Wait | None = None
    started: bool = False
    """The plan binds pods of the job."""
    looked_at: bool = True
    """False if the plan has no decision about the job, so that its last reason still holds."""
    admitted: bool = False
    moved: bool = False
    """Pods have started or ended, so they must be counted."""
    tally: Tally = Tally()
    has_pods: bool = False
    waiting: tuple[Task, ...] = ()
    """The job's waiting pods."""


class Writes(msgspec.Struct, frozen=True):
    """The writes about one job."""

    patches: tuple[Patch, ...]
    subject: Subject | None
    event: str
    """The reason for an event on the subject; empty: no event."""


def report(seen: Seen, record: Record, now: float) -> tuple[Writes, Record]:
    """The writes that are due, and the record once they are written."""
    record = _with_reason(seen, record, now)
    patches: list[Patch] = []
    if seen.subject is not None and (group := seen.subject.group) is not None:
        status, record = _group_status(seen, record, group, now)
        patches += [_patch(seen.subject, group, status)] if status else []
    reason = record.reason
    if reason and now >= record.stands_at and record.on_pods != reason:
        patches += [unschedulable(task.key, reason, task.created) for task in seen.waiting]
        record = replace(record, on_pods=reason)
    emits = bool(reason) and reason in (record.in_status, record.on_pods) and record.in_event != reason
    record = replace(record, in_event=reason) if emits else record
    return Writes(tuple(patches), seen.subject, reason if emits else ""), record


def _patch(subject: Subject, group: PodGroup, status: dict[str, Any]) -> Patch:
    rules, item = group.kind.status, group.item
    return Patch(subject.resource.path(item.namespace, item.name, rules.sub), {"status": status}, rules.patch)


def _with_reason(seen: Seen, record: Record, now: float) -> Record:
    if seen.started:
        record = replace(record, in_event="")
    if seen.wait is None:
        return replace(record, reason="", code="") if seen.looked_at else record
    reason, code = in_one_line(seen.wait.reasons), seen.wait.reasons[0].code
    same = reason == record.reason
    stands_at = record.stands_at if same else now + (A_WHILE if code in INCOMPLETE else STANDS)
    return replace(record, reason=reason, code=code, stands_at=stands_at)


def _group_status(seen: Seen, record: Record, group: PodGroup, now: float) -> tuple[dict[str, Any], Record]:
    rules = group.kind.status
    if record.group != group.item.metadata.uid:
        # Another group of the same name, for example of an elastic job that was suspended and resumed.
        record = replace(record, group=group.item.metadata.uid, in_status="", tally=None)
    admission = _admission(seen, record, group, now)
    admits = admission is not None and (_is_awaited(group) or now >= admission.due)
    record = replace(record, admission=admission)
    status: dict[str, Any] = {}
    reason = record.reason if now >= record.stands_at else ""
    if admits or seen.phase in (Phase.RUNNING, Phase.COMPLETED):
        text, is_written = str(seen.phase), rules.says(group.item, seen.phase)
    else:
        text, is_written = reason, bool(reason) and rules.says_why(group.item, seen.phase, reason)
    if is_written and not record.in_status:
        # An earlier Maar wrote the status, and emitted the event with the reason.
        record = replace(record, in_status=text, in_event=reason if text == reason else record.in_event)
    elif text and text != record.in_status:
        status = rules.of(group.item, seen.phase, record.reason, record.code, now)
        record = replace(record, in_status=text, admission=None)
    before = record.tally or rules.tally(group.item)
    if (seen.moved or status) and before is not None:
        if status or seen.tally != before:
            status |= seen.tally.since(before)
        record = replace(record, tally=seen.tally)
    return status, record


def _admission(seen: Seen, record: Record, group: PodGroup, now: float) -> Admission | None:
    """The admission that is still to be written.

    Most groups that are created together with their pods run a moment later: the delay saves one write for each.
    """
    admission = record.admission or (Admission(now + A_MOMENT) if seen.admitted else None)
    if admission is None or seen.phase is not Phase.INQUEUE or group.kind.status.says(group.item, seen.phase):
        return None
    if now >= admission.due and not admission.late and seen.has_pods and not _is_awaited(group):
        return Admission(now + A_WHILE, late=True)
    return admission


def _is_awaited(group: PodGroup) -> bool:
    """Whether a controller waits for the admission before it creates pods."""
    return any(owner.controller for owner in group.item.metadata.owner_references)


class Reports:
    """Keeps the record of each job, and returns the writes after each plan."""

    def __init__(self, cache: Cache, subjects: Subjects) -> None:
        self._cache = cache
        self._subjects = subjects
        self.tallies = Tallies()
        self._records: dict[str, Record] = {}
        self._due: dict[str, float] = {}
        """When a write is due because of time alone, by job."""
        self._queues = QueueStatus()
        self._queues_since: float | None = None

    def after(self, plan: Plan, now: float) -> list[Writes]:
        """The writes that are due after this plan: for each job, then for the queues."""
        cache = self._cache
        by_job = ByJob(plan, cache)
        news = {*cache.changed, *by_job.waiting, *by_job.admitted, *by_job.bound}
        moved = self.tallies.take(cache, now)
        writes: list[Writes] = []
        for key in sorted(news | moved | {key for key, due in self._due.items() if now >= due}):
            with cache.picture.problems.isolated(REPORT, key):
                if (found := self._of_job(key, by_job, news, moved, now)) is not None:
                    writes.append(found)
        return [*writes, Writes(tuple(self._queue_patches(plan, now)), None, "")]

    def _of_job(self, key: str, by_job: ByJob, news: set[str], moved: set[str], now: float) -> Writes | None:
        """The writes about one job; `None` if it is gone."""
        cache = self._cache
        self._due.pop(key, None)
        number = cache.latest.jobs.number.get(key)
        if number is None:
            self._records.pop(key, None)
            cache.picture.problems.valid(REPORT, key)
            return None
        record = self._records.get(key, Record())
        looked_at = key in news and (key in by_job.bound or key not in cache.resting)
        seen = self._seen(cache.latest.jobs.jobs[number], by_job, record, looked_at, key in moved)
        found, record = report(seen, record, now)
        self._records[key] = record
        if (due := record.due(now)) is not None:
            self._due[key] = due
        return found

    def due(self, now: float) -> float | None:
        """When a write is due because of time alone."""
        queues = None if self._queues_since is None else self._queues_since + MOMENT
        moments = (*self._due.values(), self.tallies.due(), queues)
        return min((moment for moment in moments if moment is not None and moment > now), default=None)

    def _seen(self, job: Job, plan: ByJob, record: Record, looked_at: bool, moved: bool) -> Seen:
        cache = self._cache
        subject, wait = self._subjects.subject_of(job.key), plan.waiting.get(job.key)
        return Seen(
            job,
            _phase_after(cache, job, plan),
            subject,
            wait,
            started=job.key in plan.bound,
            looked_at=looked_at,
            admitted=job.key in plan.admitted,
            moved=moved,
            tally=Tally() if subject is None or subject.group is None else tally(cache, job),
            has_pods=len(cache.latest.jobs.members[job.index]) > 0,
            waiting=_waiting_pods(cache, job) if wait is not None or record.reason else (),
        )

    def _queue_patches(self, plan: Plan, now: float) -> list[Patch]:
        """The patches of queue statuses, limited to one round per `MOMENT`."""
        cache, decided = self._cache, bool(plan.bind or plan.evict)
        if self._queues_since is None and (cache.changed or cache.rebuilt or decided):
            self._queues_since = now
        if self._queues_since is None or now - self._queues_since < MOMENT:
            return []
        self._queues_since = now if decided else None  # The next snapshot contains what this plan decides.
        snapshot, objects = cache.latest, cache.picture.objects.of(QUEUES)
        sums = queue_sums(snapshot, snapshot.jobs.allocated).tolist()
        rows = zip(snapshot.queues.queues, sums, strict=True)
        allocated = {queue.name: snapshot.axes.amounts(row) for queue, row in rows if queue.name in objects}
        return self._queues.patches(allocated, snapshot.axes.names)


class ByJob:
    """A plan, indexed by job."""

    def __init__(self, plan: Plan, cache: Cache) -> None:
        self.waiting = {wait.job: wait for wait in plan.waiting}
        self.admitted = {admit.job for admit in plan.admit}
        self.bound = Counter(cache.task(bind.task).job for bind in plan.bind)


def _waiting_pods(cache: Cache, job: Job) -> tuple[Task, ...]:
    tasks, assumed = cache.latest.tasks.tasks, cache.picture.assumed
    found = (tasks[row] for row in cache.latest.jobs.members[job.index].tolist())
    gone = (Status.BOUND, Status.RELEASING)
    return tuple(t for t in found if t.status in WAITING and not (t.key in assumed and assumed[t.key].status in gone))


def _phase_after(cache: Cache, job: Job, plan: ByJob) -> Phase:
    jobs, table = cache.latest.jobs, cache.latest.tasks
    members = jobs.members[job.index]
    status = table.status[members]
    ended = (status == int(Status.SUCCEEDED)) | (status == int(Status.FAILED))
    if len(members) and ended.all():
        return Phase.COMPLETED
    if int(jobs.ready[job.index]) + plan.bound[job.key] >= max(job.min_member, 1):
        return Phase.RUNNING
    if job.key in plan.admitted:
        return Phase.INQUEUE
    return job.phase if job.phase is not Phase.RUNNING else Phase.UNKNOWN
