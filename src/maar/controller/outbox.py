"""From a plan to writes: binds, evictions, sizes, nominations, elections and locks, statuses and events.

The executor carries out all writes in the background. If one fails for good, the cache forgets the assumption, and the
next cycle decides again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from maar.controller.batches import Batch, Batches
from maar.controller.cache import Cache
from maar.controller.hand_over import HandOvers
from maar.controller.refusals import Refusals
from maar.controller.reports import Reports
from maar.controller.resizes import Resizes
from maar.controller.settings import Settings
from maar.controller.subjects import Subjects, pod_reference
from maar.kube.client.errors import Conflict, NotFound
from maar.kube.kinds.cluster import PODS as PODS_KIND
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import NODES, PODS
from maar.kube.write.events import EventWriter
from maar.kube.write.executor import Bind, Delete, Evict, Executor, Failed, Outcome, Patch, Work
from maar.model.plan import Elect, Lock, Plan


class Outbox:
    """Carries out plans."""

    def __init__(
        self,
        cache: Cache,
        executor: Executor,
        events: EventWriter,
        subjects: Subjects,
        reports: Reports,
        settings: Settings,
        trigger: Callable[[], None],
    ) -> None:
        self._cache = cache
        self._executor = executor
        self._events = events
        self._subjects = subjects
        self._reports = reports
        self._settings = settings
        self._trigger = trigger
        self._elect: Elect | None = None
        self._locks: dict[str, Lock] | None = None
        self.counts: Counter[str] = Counter()
        self.on_given: list[Callable[[str], None]] = []
        """Called for gangs whose pods were bound."""
        self._batches = Batches(self._report_bound)
        self._refusals = Refusals(cache, trigger)
        self._hand_overs = HandOvers(
            cache.picture, self._submit_patch, self._submit_bind, self._give_up_volumes, trigger
        )
        self._hand_overs.on_left.append(partial(self._batches.ended, given=False))
        self.resizes = Resizes(cache, subjects, self._submit_patch, events.emit, trigger)

    def send(self, plan: Plan, now: float) -> None:
        """Carry out a plan. The cache has assumed it already, except for sizes, which are assumed here."""
        self.resizes.send(plan)
        self._send_binds(plan, now)
        self._hand_overs.go_on(now)
        self._send_evictions(plan)
        self._send_nominations(plan)
        self._send_elections(plan)
        for writes in self._reports.after(plan, now):
            for patch in writes.patches:
                self._submit(patch, None)
            if writes.event and writes.subject is not None:
                self._events.emit(writes.subject.reference, "Warning", "FailedScheduling", writes.event)

    async def has_room(self, patience: float) -> None:
        """Wait until all pending writes can be in flight at once, up to a limit in seconds."""
        await self._executor.has_room(patience)

    def due(self, now: float) -> float | None:
        """When a write is due because of time alone."""
        moments = (self._reports.due(now), self._hand_overs.due(now))
        return min((moment for moment in moments if moment is not None), default=None)

    def _submit(self, work: Work, task: str | None, then: Callable[[], None] | None = None) -> None:
        """Send a write; `then` is called if it succeeds."""

        def done(_: Work, outcome: Outcome) -> None:
            self._count(work, outcome)
            if isinstance(work, Bind) and task is not None and getattr(outcome, "final", True):
                self._batches.ended(task, not isinstance(outcome, Failed))
            if isinstance(outcome, Failed):
                if task is not None and not outcome.final:
                    # It is unknown whether the write happened: keep the assumption and try again.
                    self._submit(work, task, then)
                elif task is not None:
                    self._report_refused(work, outcome)
                    self._refusals.refused(task, _uid(work))
            else:
                if task is not None:
                    self._refusals.done(task, _uid(work))
                if then is not None:
                    then()

        self._executor.submit(work, done)

    def _report_refused(self, work: Work, outcome: Failed) -> None:
        """Emit an event for a refused bind, unless the pod is gone or already has a node."""
        if isinstance(work, Bind) and not isinstance(outcome.error, (Conflict, NotFound)):
            what = f"could not be bound to `{work.node}`: {outcome.error}"
            self._events.emit(
                pod_reference(f"{work.namespace}/{work.name}", work.uid), "Warning", "FailedScheduling", what
            )

    def _count(self, work: Work, outcome: Outcome) -> None:
        self.counts[f"{'failed' if isinstance(outcome, Failed) else 'done'}:{type(work).__name__}"] += 1

    # -- pods

    def _send_binds(self, plan: Plan, now: float) -> None:
        gangs: dict[str, dict[str, str]] = {}
        for bind in plan.bind:
            gangs.setdefault(self._cache.task(bind.task).job, {})[bind.task] = bind.node
        jobs = self._cache.latest.jobs
        for job, nodes in gangs.items():
            self._batches.begin(job, nodes, had=int(jobs.ready[jobs.number[job]]))
        for bind in plan.bind:
            task = self._cache.task(bind.task)
            if not self._hand_overs.concerns(bind.task):
                self._submit_bind(bind.task, task.uid, bind.node)
            elif claims := self._hand_overs.begin(bind.task, task.uid, bind.node, now):
                what = f"waits on {bind.node} for the volumes of its claims: {', '.join(claims)}"
                self._events.emit(pod_reference(bind.task, task.uid), "Normal", "WaitForVolumes", what)
                # A successor keeps the room by this: tenants can write the claim's annotation, but not this field.
                namespace, _, name = bind.task.partition("/")
                body = {"status": {"nominatedNodeName": bind.node}}
                self._submit(Patch(PODS.path(namespace, name, "status"), body, "merge"), None)

    def _report_bound(self, batch: Batch) -> None:
        if (subject := self._subjects.subject_of(batch.job)) is not None:
            self._events.emit(subject.reference, "Normal", "Scheduled", f"{batch}")
        for listener in self.on_given:
            listener(batch.job)

    def _submit_bind(self, pod: str, uid: str, node: str) -> None:
        namespace, _, name = pod.partition("/")
        self._submit(Bind(namespace, name, uid, node), pod)
        if self._settings.pod_events and not self._is_alone(pod):  # the batch of a single pod emits the same event
            self._events.emit(pod_reference(pod, uid), "Normal", "Scheduled", f"bound to {node}")

    def _is_alone(self, pod: str) -> bool:
        task = self._cache.find(pod)
        return task is not None and task.job == pod

    def _submit_patch(self, patch: Work, then: Callable[[Outcome], None]) -> None:
        def done(work: Work, outcome: Outcome) -> None:
            self._count(work, outcome)
            then(outcome)

        self._executor.submit(patch, done)

    def _give_up_volumes(self, pod: str, why: str) -> None:
        """Forget the decision for a pod that cannot have its volumes on its node."""
        self.counts["failed:HandOver"] += 1
        self._batches.ended(pod, given=False)
        regarding = pod_reference(pod, self._cache.picture.assumed[pod].uid)
        self._events.emit(regarding, "Warning", "FailedScheduling", why)
        self._cache.forget(pod)
        self._trigger()

    def _send_evictions(self, plan: Plan) -> None:
        for evict in plan.evict:
            task = self._cache.task(evict.task)
            namespace, _, name = evict.task.partition("/")
            kind = Delete if self._settings.delete_victims or not evict.budgets_apply else Evict
            # Emitted after the eviction: a budget may refuse it.
            emit = partial(self._events.emit, pod_reference(evict.task, task.uid), "Normal", "Preempted", evict.reason)
            self._submit(kind(namespace, name, task.uid), evict.task, emit)

    def _send_nominations(self, plan: Plan) -> None:
        promised = {n.task: n.node for n in plan.nominate}
        bound = {b.task for b in plan.bind}
        pods = self._cache.picture.objects.of(PODS_KIND)
        for key, assumed in self._cache.picture.assumed.items():
            node = promised.get(key, "")
            pod = pods.get(key)
            if key in bound or pod is None or (not node and assumed.status.name != "PENDING"):
                continue
            if pod.status.nominated_node_name != node:
                namespace, _, name = key.partition("/")
                body = {"status": {"nominatedNodeName": node or None}}
                self._submit(Patch(PODS.path(namespace, name, "status"), body, "merge"), None)

    # -- elections and locks: annotations on objects

    def _send_elections(self, plan: Plan) -> None:
        if self._locks is None:
            self._locks = {k.node: k for k in self._cache.latest.cluster.locks}
            self._elect = self._cache.latest.cluster.elect
        for job in plan.expired:
            self._annotate_job(job, {known.ELECTION_EXPIRED[0]: _time(datetime.now(UTC).timestamp())})
        if plan.elect != self._elect:
            if self._elect is not None and (plan.elect is None or plan.elect.job != self._elect.job):
                self._annotate_job(self._elect.job, {known.ELECTED_SINCE[0]: None})
            if plan.elect is not None:
                self._annotate_job(plan.elect.job, {known.ELECTED_SINCE[0]: _time(plan.elect.since)})
            self._elect = plan.elect
        locks = {k.node: k for k in plan.locks}
        for node in self._locks.keys() | locks.keys():
            if self._locks.get(node) != locks.get(node):
                lock = locks.get(node)
                notes = {known.LOCKED_FOR: lock and lock.job, known.LOCKED_SINCE: lock and _time(lock.since)}
                self._submit(Patch(NODES.path(name=node), {"metadata": {"annotations": notes}}, "merge"), None)
        self._locks = locks

    def _annotate_job(self, job: str, annotations: dict[str, str | None]) -> None:
        if (subject := self._subjects.subject_of(job)) is not None:
            self._submit(Patch(subject.path, {"metadata": {"annotations": annotations}}, "merge"), None)


def _uid(work: Work) -> str:
    return work.uid if isinstance(work, Bind | Evict | Delete) else ""


def _time(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
