"""What users see on their own objects: phases and conditions, written only when they change.

Pure: from a snapshot and its plan to patches. A group that is admitted, runs, is done or waits says so in the words of
its own dialect, and counts its pods where that does; a queue says what it has; a pod that waits has the reason in its
PodScheduled condition. A reason must stand for a moment before it is written, since most jobs of a burst wait only
until their last pod is created.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from maar.controller.cache import Cache
from maar.controller.queue_status import QueueStatus
from maar.controller.tallies import Tallies, Tally, counted_before, tally
from maar.kube.client.api import PatchKind
from maar.kube.kinds.status import text_of
from maar.kube.picture.picture import PodGroup
from maar.kube.wire.resources import PODS
from maar.model.jobs import Job, Phase
from maar.model.plan import Plan, Wait
from maar.model.reasons import in_one_line
from maar.model.tasks import Status

STANDS = 1.0
"""Seconds for which a reason must stand before it is written; by taste."""
INCOMPLETE = ("NoPods", "NotEnoughTasks", "NotEnoughPodsOfTask")
"""Reasons that go by themselves while a gang's pods are being created: they must stand for `A_WHILE`."""
A_MOMENT = 1.5
"""Seconds that an admission waits for pods that come by themselves before it is written, where no job made the group
that waits for it; by taste."""
A_WHILE = 5.0
"""Seconds that it waits where pods are there already: nobody needs to know of it, and most gangs run by then."""


class Report(msgspec.Struct, frozen=True):
    """One patch of a status."""

    path: str
    body: dict[str, Any]
    kind: PatchKind = "merge"


class Reports:
    """Remembers what was written, and says what is to be written now."""

    def __init__(self) -> None:
        self._written: dict[str, str] = {}
        self._found: dict[str, str] = {}
        """Reasons that stood on groups before we wrote any: nobody needs to be told of them again, by job."""
        self._admitted: dict[str, Admission] = {}
        """Jobs whose admission is decided and not written yet."""
        self._groups: dict[str, str] = {}
        """The uid of the group that was written to last, by job."""
        self._due: dict[str, tuple[str, float]] = {}
        """Reasons, and when each will have stood for long enough."""
        self._waits: dict[str, Wait] = {}
        """Who waits, and why, as of the last time they were looked at."""
        self.tallies = Tallies()
        self._counts: dict[str, Tally] = {}
        self._queues = QueueStatus()
        self.reasons: dict[str, str] = {}
        """Of the jobs that the last plan touched: the reasons that we have written on their objects by now."""

    def after(self, cache: Cache, plan: Plan, now: float) -> list[Report]:
        """What has become different with this plan."""
        waiting = {wait.job: wait for wait in plan.waiting}
        self._waits.update(waiting)
        done = Done({a.job for a in plan.admit}, Counter(cache.task(b.task).job for b in plan.bind))
        touched = {*cache.changed, *waiting, *done.admitted, *done.bound}
        for key in touched - waiting.keys():
            if key not in cache.resting or key in done.bound:
                self._waits.pop(key, None)
                for part in (f"{key}#group", f"{key}#pods"):
                    self._due.pop(part, None)
        touched.update(key.partition("#")[0] for key in self._unwritten(now))
        for key in done.admitted:
            self._admitted.setdefault(key, Admission(now + A_MOMENT))
        touched.update(key for key, admission in self._admitted.items() if now >= admission.due)
        counted = self.tallies.take(cache, now)
        touched |= counted
        reports: list[Report] = []
        self.reasons = {}
        for key in sorted(touched):
            number = cache.latest.jobs.number.get(key)
            if number is None:
                self._forget(key)
                continue
            job = cache.latest.jobs.jobs[number]
            reports.extend(self._of_group(cache, job, done, self._waits.get(key), key in counted, now))
            reports.extend(self._of_pods(cache, job, self._waits.get(key), now))
            if (wait := self._waits.get(key)) is not None and self._is_news_of(key, line := in_one_line(wait.reasons)):
                self.reasons[key] = line
        reports.extend(Report(path, body) for path, body in self._queues.after(cache, plan, now))
        return reports

    def _is_news_of(self, job: str, line: str) -> bool:
        """Whether a reason was written by us."""
        written = (self._written.get(f"{job}#group"), self._written.get(f"{job}#pods"))
        return line in written and self._found.get(job) != line

    def due(self, now: float) -> float | None:
        """When a reason will have stood long enough to be written."""
        moments = [due for key, (line, due) in self._due.items() if self._written.get(key) != line]
        moments += [admission.due for admission in self._admitted.values()]
        moments += [moment for moment in (self.tallies.due(), self._queues.due()) if moment is not None]
        return min((m for m in moments if m > now), default=None)

    def _unwritten(self, now: float) -> list[str]:
        """Reasons that have stood long enough by now."""
        return [
            key
            for key, (line, due) in self._due.items()
            if now >= due and self._written.get(key) != line and key.partition("#")[0] in self._waits
        ]

    def _forget(self, key: str) -> None:
        self._waits.pop(key, None)
        self._counts.pop(key, None)
        self._groups.pop(key, None)
        self._admitted.pop(key, None)
        self._found.pop(key, None)
        for part in (f"{key}#group", f"{key}#pods"):
            self._written.pop(part, None)
            self._due.pop(part, None)

    def _stands(self, key: str, line: str, wait: Wait | None, now: float) -> bool:
        """Whether a reason has stood for a moment, and is not written yet."""
        known = self._due.get(key)
        if known is None or known[0] != line:
            passing = wait is not None and wait.reasons[0].code in INCOMPLETE
            self._due[key] = (line, now + (A_WHILE if passing else STANDS))
            return False
        return now >= known[1] and self._written.get(key) != line

    # -- groups

    def _of_group(
        self, cache: Cache, job: Job, done: Done, wait: Wait | None, counted: bool, now: float
    ) -> Iterable[Report]:
        found = cache.picture.group_of(job.key)
        if found is None:
            return
        kind, group = found
        rules = kind.status
        if self._groups.get(job.key) != group.metadata.uid:
            # Another group of the same name, as that of an elastic job that was suspended and resumed.
            self._groups[job.key] = group.metadata.uid
            self._written.pop(f"{job.key}#group", None)
            self._counts.pop(job.key, None)
        phase = _phase_after(cache, job, done)
        line = "" if wait is None else in_one_line(wait.reasons)
        status: dict[str, Any] = {}
        admits = self._admits(cache, job, phase, found, now)
        if self._is_news(job, phase, line, found, wait, admits, now):
            self._admitted.pop(job.key, None)
            counted = True
            status = rules.of(group, phase, line, wait, now)
        if counted and rules.counts:
            counts, before = tally(cache, job), self._counts.get(job.key) or counted_before(group)
            self._counts[job.key] = counts
            if status or counts != before:
                status |= counts.since(before)
        if status:
            yield Report(cache.picture.path(kind, group, rules.sub), {"status": status}, rules.patch)

    def _admits(self, cache: Cache, job: Job, phase: Phase, group: PodGroup, now: float) -> bool:
        """Whether an admission is to be written now: at once for a job that waits for it, else only if need be.

        Most groups that were made together with their pods run a moment later: one write is saved for each of them.
        """
        admission = self._admitted.get(job.key)
        if admission is None:
            return False
        if phase is not Phase.INQUEUE or group.kind.status.says(group.item, phase):
            del self._admitted[job.key]
            return False
        if any(owner.controller for owner in group.item.metadata.owner_references):
            return True
        if now >= admission.due and not admission.late and len(cache.latest.jobs.members[job.index]):
            self._admitted[job.key] = Admission(now + A_WHILE, late=True)
            return False
        return now >= admission.due

    def _is_news(
        self, job: Job, phase: Phase, line: str, group: PodGroup, wait: Wait | None, admits: bool, now: float
    ) -> bool:
        """Whether a group's phase or reason is to be written, which is then taken as done."""
        key = f"{job.key}#group"
        if phase in (Phase.RUNNING, Phase.COMPLETED) or admits:
            said = f"{phase}"
            if key not in self._written and group.kind.status.says(group.item, phase):
                self._written[key] = said  # By the one before us.
            if self._written.get(key) == said:
                return False
        elif line and self._stands(key, line, wait, now):
            said = line
            if key not in self._written and group.kind.status.says_why(group.item, phase, line):
                self._written[key] = self._found[job.key] = line  # By the one before us.
                return False
        else:
            return False
        self._found.pop(job.key, None)
        self._written[key] = said
        return True

    # -- pods

    def _of_pods(self, cache: Cache, job: Job, wait: Wait | None, now: float) -> Iterable[Report]:
        """The reason on each pod that waits; nominations as soon as they are made."""
        line = "" if wait is None else in_one_line(wait.reasons)
        stands = bool(line) and self._stands(f"{job.key}#pods", line, wait, now)
        table = cache.latest.tasks
        for row in cache.latest.jobs.members[job.index].tolist():
            task = table.tasks[row]
            assumed = cache.picture.assumed.get(task.key)
            if assumed is not None and assumed.status in (Status.BOUND, Status.RELEASING):
                continue
            if stands and task.status in (Status.PENDING, Status.NOMINATED, Status.BLOCKED):
                yield _unschedulable(task.key, line, task.created)
        if stands and cache.picture.is_unreadable(job.key):
            yield _unschedulable(job.key, line, job.created)
        if stands:
            self._written[f"{job.key}#pods"] = line


class Admission(NamedTuple):
    """A group's admission that is not written yet."""

    due: float
    late: bool = False
    """Its pods are there, and so it has time."""


class Done(NamedTuple):
    """What a plan does for jobs."""

    admitted: set[str]
    bound: Counter[str]


def _unschedulable(pod: str, line: str, created: float) -> Report:
    """A pod waits since it was created: another reason is no transition, and the same one again changes nothing."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": line,
        "lastTransitionTime": text_of(created),
    }
    namespace, _, name = pod.partition("/")
    return Report(PODS.path(namespace, name, "status"), {"status": {"conditions": [condition]}}, "strategic")


def _phase_after(cache: Cache, job: Job, done: Done) -> Phase:
    """Where a group stands once the plan is carried out."""
    jobs, table = cache.latest.jobs, cache.latest.tasks
    members = jobs.members[job.index]
    status = table.status[members]
    ended = (status == int(Status.SUCCEEDED)) | (status == int(Status.FAILED))
    if len(members) and ended.all():
        return Phase.COMPLETED
    if int(jobs.ready[job.index]) + done.bound[job.key] >= max(job.min_member, 1):
        return Phase.RUNNING
    if job.key in done.admitted:
        return Phase.INQUEUE
    return job.phase if job.phase is not Phase.RUNNING else Phase.UNKNOWN
