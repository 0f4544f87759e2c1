"""What users see on their own objects, after each plan: keeps the record of each job, and returns the writes.

`job_reports` says what to write about one job. Here is what concerns all jobs together: which jobs to look at, whose
details are refreshed next (one job per second, of each namespace in turn), and the statuses of queues. A job about
which nothing has changed costs one comparison, because thousands wait.

After a plan, `after` only notes which jobs have news, and returns the writes that must not be late: nominated nodes.
The outbox asks for the others one job at a time (`next`), as `backlog` allows, so that thousands of them neither keep
the event loop busy nor pile up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from maar.controller.reporting.backlog import Backlog
from maar.controller.reporting.job_reports import STANDS, PlannedJob, Record, Waiting, Writes, report
from maar.controller.reporting.note_writers import Tellers
from maar.controller.reporting.old_notes import Removals
from maar.controller.reporting.pod_counts import MOMENT, Tallies, tally
from maar.controller.reporting.write_rates import Pace
from maar.controller.snapshots.cache import Cache
from maar.controller.snapshots.cycle import Cycle
from maar.kube.kinds.cluster import PODS, QUEUES
from maar.kube.kinds.status import Tally
from maar.kube.picture.job_objects import Subject, subject_of
from maar.kube.wire import annotations as known
from maar.kube.write.status import QueueShows, QueueStatuses
from maar.kube.write.turns import TenantTurns
from maar.kube.write.work import Patch
from maar.model.codes import UNSCHEDULABLE
from maar.model.jobs import Job, Phase
from maar.model.minimum import has_minimum
from maar.model.plan import Plan, Wait
from maar.model.tasks import READY, Status, Task
from maar.session.state import queue_sums

WAITING = (Status.PENDING, Status.NOMINATED, Status.BLOCKED)
GONE = (Status.BOUND, Status.RELEASING)
REPORT = "report"
"""In the table of problems: a job about which nothing could be written."""
Print = tuple[tuple[str, ...], ...]
"""What objects would say about a job: codes and texts, and its surplus pods."""
DETAILS_EVERY = 1.0
"""Seconds between two refreshes of details, of all jobs together."""
AGAIN = 60.0
"""Seconds after which a write that failed is decided again, from what the objects show; tuned by hand."""


class News(msgspec.Struct):
    """What the cycles since the last look at a job have said about it."""

    wait: Wait | None = None
    looked_at: bool = False
    """Whether a plan has decided about the job."""
    admitted: bool = False
    moved: bool = False
    refresh: bool = False


class Reports:
    """Keeps the record of each job, and returns the writes after each plan."""

    def __init__(
        self,
        cache: Cache,
        may_ask: Callable[[str], bool] = lambda job: True,
    ) -> None:
        """`may_ask`: whether conditions of a job's pods may make autoscalers add nodes."""
        self._may_ask = may_ask
        self._cache = cache
        self._pace = Pace(DETAILS_EVERY)
        """Of all refreshes of details."""
        self.tallies = Tallies()
        self._records: dict[str, Record] = {}
        self._waits: dict[str, Print] = {}
        """What objects would say about each waiting job, after the last decision about it."""
        self._due: dict[str, float] = {}
        """When a write is due because of time alone, by job."""
        self._stale: TenantTurns[str] = TenantTurns()
        """Jobs whose details are to be refreshed."""
        self._news: dict[str, News] = {}
        """Jobs to look at."""
        self._backlog = Backlog()
        self._plan = ByJob()
        """The last plan."""
        self._soonest: float | None = None
        """The first moment at which a write is due because of time alone, of the jobs that `next` has looked at."""
        self._lost: dict[str, float] = {}
        """Jobs of which a write has failed, and when to look at their objects again."""
        self._tellers = Tellers()
        self._removals = Removals()
        self._found: dict[str, str] = {}
        """What the notes of suspended jobs said that have no record yet: a Maar before this one wrote it."""
        self._handed: set[str] = set()
        """Jobs that write the note on their object from now on."""
        self.now = 0.0
        """The time of the last cycle."""
        self._queues = QueueStatuses()
        self._queues_since: float | None = None
        self._queues_due: float | None = None
        self._unfinished = 0
        """Writes that are about no job and have not ended."""

    def before(self, plan: Plan) -> None:
        """Nothing of this plan has been written yet: keep what notes say about jobs that are new to this process."""
        jobs = self._cache.latest.jobs
        for key in (wait.job for wait in plan.waiting if wait.job not in self._records):
            if key not in self._found and (number := jobs.number.get(key)) is not None:
                self._found[key] = self._noted(jobs.jobs[number]) or ""

    def after(self, cycle: Cycle) -> list[Writes]:
        """Note what is new after this cycle. Returns the writes that are not left to `next`."""
        cache, plan, now = self._cache, cycle.plan, cycle.now
        self.now = now
        nominated_before = self._plan.nominated_jobs
        self._plan = by_job = ByJob(cycle)
        changed = {*cycle.changed, *by_job.admitted, *by_job.bound, *by_job.nominated_jobs}
        news = changed | {wait.job for wait in plan.waiting if not self._is_known(wait)}
        moved = self.tallies.take(cache, now)
        due = {key for key, at in self._due.items() if now >= at}
        lost = self._next_lost(now)
        refreshed = self._next_stale(now)
        # Waiting jobs come first: after a restart a job that runs must not remove the note of one that waits.
        for key in sorted(news | moved | due | lost | refreshed, key=lambda key: (not self._is_new(key), key)):
            self._due.pop(key, None)
            if key not in cache.latest.jobs.number:
                self._forget(key)
                continue
            one = self._news.setdefault(key, News())
            has_news = key in news or key in self._handed
            self._handed.discard(key)
            if key in by_job.waiting or (has_news and (key in by_job.bound or key not in cycle.skipped)):
                one.looked_at, one.wait = True, by_job.waiting.get(key)
            one.admitted |= key in by_job.admitted
            one.moved |= key in moved or key in lost
            one.refresh |= key in refreshed
            self._backlog.add(key)
        jobs = sorted(nominated_before | by_job.nominated_jobs)
        writes = [found for key in jobs if (found := self._look_at(key)) is not None]
        loose = [Writes(tuple(self._queue_patches(cycle)), None, "")]
        for patch, place in self._removals.take(cache.picture, now):
            loose.append(Writes((patch,), None, "", removes=place))
        self._unfinished += sum(len(one.patches) for one in loose)
        return [*writes, *loose]

    def next(self) -> Writes | None:
        """The writes about the next job that has news, perhaps none; `None` if no job may have its turn now."""
        while (key := self._backlog.take()) is not None:
            if (found := self._look_at(key)) is not None:
                return found
        return None

    def ended(self, job: str) -> None:
        """One of the writes about a job has ended."""
        if job:
            self._backlog.ended(job)
        else:
            self._unfinished -= 1

    def take_soonest(self) -> float | None:
        """When a write about the jobs that `next` has looked at since the last call is due because of time alone."""
        soonest, self._soonest = self._soonest, None
        return soonest

    def is_due(self, moment: float) -> bool:
        """Whether at this moment a write is still due because of time alone."""
        return bool(self._stale) or any(at <= moment for at in self._due.values())

    def _is_new(self, key: str) -> bool:
        return key in self._plan.waiting and key not in self._records

    def _look_at(self, key: str) -> Writes | None:
        """The writes that are due about a job, from what is known about it now."""
        news, cache = self._news.pop(key, None), self._cache
        self._backlog.discard(key)
        if news is None:
            return None
        number = cache.latest.jobs.number.get(key)
        if number is None:
            self._forget(key)
            return None
        if not cache.own.has_job(key):
            self._leave(key)
            return None
        found: Writes | None = None
        with cache.picture.problems.isolated(REPORT, key):
            seen = self._seen(cache.latest.jobs.jobs[number], news)
            found, record = report(seen, self._records.get(key, Record()), self.now)
            self._keep(key, record, seen, self.now)
            for other in self._tellers.take(self._waits_now):
                self._handed.add(other)
                self._set_due(other, self.now + STANDS)
            self._backlog.began(key, len(found.patches))
        return found

    def due(self, now: float) -> float | None:
        """When a write is due because of time alone."""
        queues = None if self._queues_since is None else self._queues_since + MOMENT
        parts = (self.tallies.due(), self._removals.due(), queues, self._queues_due)
        moments = [moment for moment in (*self._due.values(), *self._lost.values(), *parts) if moment is not None]
        later = [moment for moment in moments if moment > now]
        if self._stale:
            later.append(max(self._pace.due(), now))  # a job that became stale in this cycle has its turn in the next
        return min(later, default=None)

    def lacking_nodes(self, now: float) -> list[str]:
        """The jobs that wait for nodes, and for nothing else."""
        records = self._records.items()
        return [job for job, r in records if r.verdict and r.verdict.condition == UNSCHEDULABLE and now >= r.stands_at]

    def contradicted(self, pod: str, now: float) -> None:
        """Another client wrote to the status of a pod, perhaps a late request of an earlier leader: look again."""
        task = self._cache.find(pod)
        if task is not None and (record := self._records.get(task.job)) is not None and pod in record.pods:
            pods = {key: mark for key, mark in record.pods.items() if key != pod}
            self._records[task.job] = replace(record, pods=pods)
            self._due[task.job] = now

    def look_again(self, jobs: Iterable[str], now: float) -> None:
        """Look at these jobs after the next cycle."""
        self._due.update((job, now) for job in jobs if job in self._records)

    def failed(self, writes: Writes, patch: Patch) -> None:
        """A patch was refused, or not answered for too long: what it says is written again after a while."""
        if writes.removes is not None:
            self._removals.failed(patch.path, writes.removes, self.now + AGAIN)
        elif not writes.job:
            self._queues.failed(patch, self.now + AGAIN)
            self._queues_due = min(self._queues_due or math.inf, self.now + AGAIN)
        elif writes.job in self._records:
            self._lost.setdefault(writes.job, self.now + AGAIN)

    # -- which jobs

    def _is_known(self, wait: Wait) -> bool:
        """Whether objects would say the same as the last time: then nothing is written about the job."""
        return self._waits.get(wait.job) == _print(wait)

    def _keep(self, key: str, record: Record, seen: PlannedJob, now: float) -> None:
        self._records[key] = record
        self._found.pop(key, None)
        if seen.subject is not None and (note := seen.subject.note) is not None and note.place is not None:
            text = note.shown if record.noted is None else record.noted[1]
            self._removals.shows(note.path, note.place if text else None)
        if seen.wait is not None:
            self._waits[key] = _print(seen.wait)
        elif seen.looked_at:
            self._waits.pop(key, None)
        if (due := record.due(now)) is not None:
            self._set_due(key, due)
        if record.stale:
            self._stale.put(_namespace(key), key)
            self._note_due(max(self._pace.due(), now))
        else:
            self._stale.discard(_namespace(key), key)

    def _set_due(self, key: str, moment: float) -> None:
        self._due[key] = moment
        self._note_due(moment)

    def _note_due(self, moment: float) -> None:
        self._soonest = moment if self._soonest is None else min(self._soonest, moment)

    def _forget(self, key: str) -> None:
        self._removals.left(self._tellers.leave(key), self.now)
        self._drop(key)

    def _drop(self, key: str) -> None:
        for kept in (self._records, self._waits, self._lost, self._news, self._found):
            kept.pop(key, None)
        self._stale.discard(_namespace(key), key)
        self._backlog.discard(key)
        self._handed.discard(key)

    def _leave(self, key: str) -> None:
        """Another shard writes about a job from now on. Its objects stay as they are."""
        self._tellers.leave(key)
        self._drop(key)

    def _only_teller(self, key: str, subject: Subject | None, waits: bool) -> Subject | None:
        """A subject without its note, if another job writes that."""
        path = None if subject is None or subject.note is None else subject.note.path
        if path != self._tellers.object_of(key):
            self._removals.left(self._tellers.leave(key), self.now)
        if subject is None or path is None:
            return subject
        tells = self._tellers.tells(key, path, waits, self._waits_now)
        return subject if tells else replace(subject, note=None)

    def _waits_now(self, key: str) -> bool:
        news = self._news.get(key)
        return key in self._waits or key in self._plan.waiting or (news is not None and news.wait is not None)

    def _next_lost(self, now: float) -> set[str]:
        """The jobs of which a write has failed some time ago: what their objects show counts from now on."""
        lost = {key for key, at in self._lost.items() if now >= at}
        for key in lost:
            del self._lost[key]
            if (record := self._records.get(key)) is not None:
                self._records[key] = record.unwritten()
        return lost

    def _next_stale(self, now: float) -> set[str]:
        """The job whose details are refreshed now, if it is time for one."""
        if not self._stale or not self._pace.take(now):
            return set()
        return {self._stale.take()}

    def _seen(self, job: Job, news: News) -> PlannedJob:
        cache, wait = self._cache, news.wait
        subject = subject_of(cache.picture, cache.latest, job.key)
        subject = self._only_teller(
            job.key, subject, wait is not None or (job.key in self._waits and not news.looked_at)
        )
        waits = wait is not None or job.key in self._waits
        alone = subject is not None and subject.tells.kind == PODS.resource.kind and cache.picture.is_alone(job.key)
        return PlannedJob(
            job,
            _phase_after(cache, job, self._plan, news.admitted),
            subject,
            wait,
            looked_at=news.looked_at,
            admitted=news.admitted,
            moved=news.moved,
            tally=Tally() if subject is None or subject.group is None else tally(cache, job),
            has_pods=not cache.latest.tasks.unborn[cache.latest.jobs.members[job.index]].all(),
            waiting=self._waiting_pods(job) if waits else (),
            may_ask=self._may_ask(job.key),
            alone=alone,
            refresh=news.refresh,
            noted=self._noted(job),
            found=self._found.get(job.key, ""),
        )

    def _noted(self, job: Job) -> str | None:
        """What the note on a suspended job says, which is written with its size; `None` for all others."""
        found = self._cache.picture.elastic_job(job.key) if job.is_suspended else None
        return None if found is None else found.item.metadata.annotations.get(known.WHY, "")

    def _waiting_pods(self, job: Job) -> tuple[Waiting, ...]:
        cache = self._cache
        tasks, assumed, pods = cache.latest.tasks.tasks, cache.picture.assumed, cache.picture.objects.of(PODS)
        found: list[Waiting] = []
        for row in cache.latest.jobs.members[job.index].tolist():
            task = tasks[row]
            pod, decided = pods.get(task.key), assumed.get(task.key)
            if task.status not in WAITING or pod is None or pod.metadata.uid != task.uid or pod.spec.scheduling_gates:
                continue
            if decided is not None and decided.status in GONE:
                continue
            node = self._plan.nominated.get(task.key, "")
            shown, nominated = pod.scheduled, pod.status.nominated_node_name
            found.append(Waiting(task.key, task.uid, task.created, task.blocked, shown, nominated, node))
        return tuple(found)

    # -- queues

    def _queue_patches(self, cycle: Cycle) -> list[Patch]:
        """The patches of queue statuses: changes are gathered for a moment."""
        plan, now, snapshot = cycle.plan, cycle.now, cycle.snapshot
        decided = bool(plan.bind or plan.evict)
        if self._queues_due is not None and now >= self._queues_due:
            self._queues_due, self._queues_since = None, now - MOMENT
        if self._queues_since is None and (cycle.changed or cycle.rebuilt or decided):
            self._queues_since = now
        if self._queues_since is None or now - self._queues_since < MOMENT:
            return []
        if self._unfinished:  # the newest amounts are written once those are
            self._queues_due = now + MOMENT
            return []
        self._queues_since = now if decided else None  # The next snapshot contains what this plan decides.
        objects = self._cache.picture.objects.of(QUEUES)
        sums = queue_sums(snapshot, snapshot.jobs.allocated).tolist()
        waiting, deserved = _waiting_in_queues(cycle), {d.queue: d.amounts for d in plan.deserved}
        wanted = {
            queue.name: QueueShows(snapshot.axes.amounts(row), deserved.get(queue.name), waiting[queue.name])
            for queue, row in zip(snapshot.queues.queues, sums, strict=True)
            if queue.name in objects and cycle.own.has_queue(queue.name)
        }
        shown = {name: objects[name].status for name in wanted}
        patches, self._queues_due = self._queues.patches(wanted, shown, snapshot.axes.names, now)
        return patches


def _waiting_in_queues(cycle: Cycle) -> Counter[str]:
    """How many jobs wait in each queue and in the queues below it."""
    jobs, tree = cycle.snapshot.jobs, cycle.snapshot.queues
    found: Counter[str] = Counter()
    for key in cycle.waits:
        number = jobs.number.get(key)
        if number is not None and (queue := int(jobs.queue[number])) >= 0:
            found.update(tree.queues[above].name for above in tree.path[queue])
    return found


def _print(wait: Wait) -> Print:
    return (*((reason.code, reason.on_objects) for reason in wait.reasons), wait.surplus)


def _namespace(job: str) -> str:
    return job.partition("/")[0]


class ByJob:
    """A plan, indexed by job."""

    def __init__(self, cycle: Cycle | None = None) -> None:
        plan = Plan() if cycle is None else cycle.plan
        pods = {} if cycle is None else cycle.pods
        self.snapshot = None if cycle is None else cycle.snapshot
        """What it was decided from."""
        self.waiting = {wait.job: wait for wait in plan.waiting}
        self.admitted = {admit.job for admit in plan.admit}
        self.bound: dict[str, list[Task]] = {}
        for task in (pods[bind.task] for bind in plan.bind):
            self.bound.setdefault(task.job, []).append(task)
        self.nominated = {n.task: n.node for n in plan.nominate}
        """The node that is nominated for each task."""
        self.nominated_jobs = {pods[n.task].job for n in plan.nominate}


def _phase_after(cache: Cache, job: Job, plan: ByJob, admitted: bool) -> Phase:
    jobs, table = cache.latest.jobs, cache.latest.tasks
    members = jobs.members[job.index]
    status = table.status[members]
    ended = (status == int(Status.SUCCEEDED)) | (status == int(Status.FAILED))
    if len(members) and ended.all():
        return Phase.COMPLETED
    ready = [task for task in cache.latest.tasks_of(job.index) if task.status in READY]
    bound = plan.bound.get(job.key, []) if plan.snapshot is cache.latest else []  # later, they count as ready
    if has_minimum(job, ready + bound):
        return Phase.RUNNING
    if admitted:
        return Phase.INQUEUE
    return job.phase if job.phase is not Phase.RUNNING else Phase.UNKNOWN
