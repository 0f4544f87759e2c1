"""What users see on their own objects: phases and conditions, written only when they change.

Pure: from a snapshot and its plan to patches. A group that is admitted, runs, is done or waits says so in the words of
its own dialect; a pod that waits has the reason in its PodScheduled condition. A reason must stand for a moment before
it is written, since most jobs of a burst wait only until their last pod is created.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from maar.controller.cache import Cache
from maar.kube.api import PatchKind
from maar.kube.resources import PLUGINS_GROUPS, PODS, UPSTREAM_GROUPS, VOLCANO_GROUPS, Resource
from maar.kube.wire import Object
from maar.model.jobs import Job, Phase
from maar.model.plan import Plan, Wait
from maar.model.reasons import in_one_line
from maar.model.tasks import Status

STANDS = 1.0
"""Seconds for which a reason must stand before it is written; by taste."""

RESOURCES: dict[str, Resource[Object]] = {
    "volcano_groups": VOLCANO_GROUPS,
    "upstream_groups": UPSTREAM_GROUPS,
    "plugins_groups": PLUGINS_GROUPS,
}


class Report(msgspec.Struct, frozen=True):
    """One patch of a status."""

    path: str
    body: dict[str, Any]
    kind: PatchKind = "merge"


class Reports:
    """Remembers what was written, and says what is to be written now."""

    def __init__(self, resources: dict[str, Resource[Object]] | None = None) -> None:
        self.resources = {**RESOURCES, **(resources or {})}
        """Home of a group to the version that the server serves."""
        self._written: dict[str, str] = {}
        self._since: dict[str, tuple[str, float]] = {}
        self._waits: dict[str, Wait] = {}
        """Who waits, and why, as of the last time they were looked at."""

    def after(self, cache: Cache, plan: Plan, now: float) -> list[Report]:
        """What has become different with this plan."""
        waiting = {wait.job: wait for wait in plan.waiting}
        self._waits.update(waiting)
        done = Done({a.job for a in plan.admit}, Counter(cache.task(b.task).job for b in plan.bind))
        touched = {*cache.changed, *waiting, *done.admitted, *done.bound}
        for key in touched - waiting.keys():
            if key not in cache.resting or key in done.bound:
                self._waits.pop(key, None)
        touched.update(key.partition("#")[0] for key in self._unwritten(now))
        reports: list[Report] = []
        for key in sorted(touched):
            number = cache.latest.jobs.number.get(key)
            if number is None:
                self._forget(key)
                continue
            job = cache.latest.jobs.jobs[number]
            reports.extend(self._of_group(cache, job, done, self._waits.get(key), now))
            reports.extend(self._of_pods(cache, job, self._waits.get(key), now))
        return reports

    def is_written(self, job: str, line: str) -> bool:
        """Whether a job's reason stands on its objects."""
        return line in (self._written.get(f"{job}#group"), self._written.get(f"{job}#pods"))

    def due(self, now: float) -> float | None:
        """When a reason will have stood long enough to be written."""
        moments = [since + STANDS for key, (line, since) in self._since.items() if self._written.get(key) != line]
        return min((m for m in moments if m > now), default=None)

    def _unwritten(self, now: float) -> list[str]:
        """Reasons that have stood long enough by now."""
        return [
            key
            for key, (line, since) in self._since.items()
            if now - since >= STANDS and self._written.get(key) != line and key.partition("#")[0] in self._waits
        ]

    def _forget(self, key: str) -> None:
        self._waits.pop(key, None)
        for part in (f"{key}#group", f"{key}#pods"):
            self._written.pop(part, None)
            self._since.pop(part, None)

    def _stands(self, key: str, line: str, now: float) -> bool:
        """Whether a reason has stood for a moment, and is not written yet."""
        known = self._since.get(key)
        if known is None or known[0] != line:
            self._since[key] = (line, now)
            return False
        return now - known[1] >= STANDS and self._written.get(key) != line

    # -- groups

    def _of_group(self, cache: Cache, job: Job, done: Done, wait: Wait | None, now: float) -> Iterable[Report]:
        found = cache.picture.group_of(job.key)
        if found is None:
            return
        home, group = found
        phase = _phase_after(cache, job, done)
        line = "" if wait is None else in_one_line(wait.reasons)
        key = f"{job.key}#group"
        if phase in (Phase.RUNNING, Phase.COMPLETED) or job.key in done.admitted:
            said = f"{phase}"
            if self._written.get(key) == said:
                return
        elif line and self._stands(key, line, now):
            said = line
        else:
            return
        self._written[key] = said
        resource = self.resources[home]
        status = _status(home, job, phase, line, wait, cache, now)
        sub = None if home == "volcano_groups" else "status"
        yield Report(resource.path(group.namespace, group.name, sub), {"status": status})

    # -- pods

    def _of_pods(self, cache: Cache, job: Job, wait: Wait | None, now: float) -> Iterable[Report]:
        """The reason on each pod that waits; nominations as soon as they are made."""
        line = "" if wait is None else in_one_line(wait.reasons)
        stands = bool(line) and self._stands(f"{job.key}#pods", line, now)
        table = cache.latest.tasks
        for row in cache.latest.jobs.members[job.index].tolist():
            task = table.tasks[row]
            assumed = cache.picture.assumed.get(task.key)
            if assumed is not None and assumed.status in (Status.BOUND, Status.RELEASING):
                continue
            if stands and task.status in (Status.PENDING, Status.NOMINATED, Status.BLOCKED):
                condition = {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": line,
                    "lastTransitionTime": _time(now),
                }
                namespace, _, name = task.key.partition("/")
                yield Report(PODS.path(namespace, name, "status"), {"status": {"conditions": [condition]}}, "strategic")
        if stands:
            self._written[f"{job.key}#pods"] = line


class Done(NamedTuple):
    """What a plan does for jobs."""

    admitted: set[str]
    bound: Counter[str]


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


def _status(
    home: str, job: Job, phase: Phase, line: str, wait: Wait | None, cache: Cache, now: float
) -> dict[str, Any]:
    runs = phase in (Phase.RUNNING, Phase.COMPLETED)
    reason = "Scheduled" if runs or wait is None else wait.reasons[0].code
    time = _time(now)
    if home == "upstream_groups":
        condition = {"type": "PodGroupScheduled", "status": "True" if runs else "False", "reason": reason}
        return {"conditions": [{**condition, "message": line or "the gang runs", "lastTransitionTime": time}]}
    if home == "plugins_groups":
        return {"phase": "Running" if runs else "Scheduling"}
    condition = {
        "type": "Scheduled" if runs else "Unschedulable",
        "status": "True",
        "reason": "tasks in gang are ready to be scheduled" if runs else reason,
        "message": line,
        "lastTransitionTime": time,
        "transitionID": f"{now:.3f}",
    }
    said: dict[str, Any] = {"phase": str(phase)}
    if runs or line:
        said["conditions"] = [condition]
    return said


def _time(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
