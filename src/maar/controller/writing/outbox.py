"""From a plan to writes: binds, evictions, gates, sizes, nominations, statuses and events.

The executor carries out all writes in the background. If one fails for good, the cache forgets the assumption, and the
next cycle decides again. Statuses are made after the cycle, a few jobs at a time, so that the event loop sends binds
meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial

from maar.controller.reporting.job_reports import Writes
from maar.controller.reporting.reports import Reports
from maar.controller.settings.settings import Settings
from maar.controller.snapshots.cache import Cache
from maar.controller.snapshots.cycle import Cycle
from maar.controller.writing.batches import Batch, Batches, assigned
from maar.controller.writing.gates import Gates
from maar.controller.writing.hand_over import HandOvers
from maar.controller.writing.limits import LimitedWrites
from maar.controller.writing.memory import Memory
from maar.controller.writing.provisioning import Provisioning
from maar.controller.writing.refusals import Refusals, Restless
from maar.controller.writing.resizes import Resizes
from maar.kube.client.errors import Conflict, NotFound
from maar.kube.picture.job_objects import subject_of
from maar.kube.read.state import entry_of
from maar.kube.wire.api_resources import PODS
from maar.kube.wire.references import Reference, pod_reference
from maar.kube.write.events import EventWriter
from maar.kube.write.executor import OFTEN, Bind, Delete, Evict, Executor, Failed, Lane, Outcome, Patch, Work
from maar.kube.write.status import nominates
from maar.model.verdicts import NOMINATED

WITHDRAWN = "Withdrawn"
"""The reason of binds that were not sent, because the decision about their gang no longer holds."""
ONE_BOUND = "bound one of its pods"
LOOKS = 16
"""Jobs that are reported on before the event loop does something else: about a millisecond. Tuned by hand."""
ADMITTED = "its group is admitted: its pods may be created and placed"


class Outbox:
    """Carries out plans."""

    def __init__(
        self,
        cache: Cache,
        executor: Executor,
        events: EventWriter,
        reports: Reports,
        provisioning: Provisioning,
        settings: Settings,
        pod_events: Callable[[], bool],
        trigger: Callable[[], None],
    ) -> None:
        """`pod_events`: whether each bound pod gets an event of its own."""
        self._cache = cache
        self._executor = executor
        self._events = events
        self._reports = reports
        self._provisioning = provisioning
        self._settings = settings
        self._pod_events = pod_events
        self._trigger = trigger
        self.counts: Counter[str] = Counter()
        self._decided: float | None = None
        """When the plan was decided that is being carried out."""
        self._reporting: asyncio.Handle | None = None
        self._look_again: asyncio.TimerHandle | None = None
        self.on_given: list[Callable[[str], None]] = []
        """Called for gangs whose pods were bound."""
        self._batches = Batches(self._report_bound)
        self._refusals = Refusals(cache.picture, trigger)
        self._restless = Restless(cache)
        left = partial(self._batches.ended, given=False)
        self._hand_overs = HandOvers(
            cache.picture, self._submit_patch, self._submit_bind, self._give_up_volumes, left, trigger
        )
        self._limited = LimitedWrites(self._send_bind, self._drop_bind, self._grow)
        picture, times = cache.picture, cache.pool_times
        self.resizes = Resizes(picture, times, self._submit_patch, events.emit, trigger, self._restless, self._limited)
        self._gates = Gates(cache.picture, self._submit_patch, trigger)
        entry = entry_of(settings.scheduler_names)
        self.memory = Memory(picture, times, self._submit_patch, trigger, settings.namespace, entry)

    def send(self, cycle: Cycle, decided: float | None = None) -> None:
        """Carry out the plan of a cycle. The cache has assumed it already, except for sizes, which are assumed here.

        `decided`: when it was decided, by the monotonic clock.
        """
        self._decided = decided
        self._reports.before(cycle.plan)
        self._limited.take(cycle.plan, cycle.snapshot)
        self.resizes.send(cycle)
        self._send_evictions(cycle)
        self._send_binds(cycle)
        self._hand_overs.go_on(cycle.now)
        self._gates.send(cycle)
        self.memory.send(cycle)
        self._decided = None

    async def all_sent(self, patience: float) -> None:
        """Wait until what decisions and later leaders depend on has been sent, up to a limit in seconds."""
        await self._executor.all_sent(patience)

    async def all_answered(self, patience: float) -> None:
        """Wait until all writes but statuses have their answers, up to a limit in seconds."""
        await self._executor.all_answered(patience)

    def report(self, cycle: Cycle) -> None:
        """Write what people read after a plan, and ask for nodes."""
        for writes in self._reports.after(cycle):
            self._write(writes)
        self._report_soon()
        if self._provisioning.has_work:
            self._ask_for_nodes(cycle.now)

    # -- reports

    def _report_soon(self) -> None:
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().call_soon(self._report_some)

    def _report_some(self) -> None:
        """Report on the next jobs, and go on as soon as everything else that is ready has had its turn."""
        self._reporting = None
        if self._executor.ended:
            return
        for _ in range(LOOKS):
            writes = self._reports.next()
            if writes is None:
                break
            self._write(writes)
        else:
            self._report_soon()
        if (soonest := self._reports.take_soonest()) is not None:
            self._trigger_at(soonest)

    def _trigger_at(self, moment: float) -> None:
        """Run a cycle when a report is due: the last cycle ended before that was known."""
        loop = asyncio.get_running_loop()
        at = loop.time() + max(moment - self._reports.now, 0.0)
        if self._look_again is not None and not self._look_again.cancelled() and loop.time() < self._look_again.when():
            if self._look_again.when() <= at:
                return
            self._look_again.cancel()
        self._look_again = loop.call_at(at, self._trigger_if_due, moment)

    def _trigger_if_due(self, moment: float) -> None:
        if self._reports.is_due(moment):
            self._trigger()

    def _write(self, writes: Writes) -> None:
        for patch in writes.patches:
            lane = Lane.FIRST if nominates(patch) else Lane.STATUS
            self._submit_patch(patch, partial(self._reported, writes, patch), lane)
        if writes.subject is not None:
            self._tell(writes, writes.subject.tells)

    def _tell(self, writes: Writes, about: Reference) -> None:
        """Events on the object of a job's owner."""
        if writes.admitted:
            self._events.emit(about, "Normal", "Admitted", ADMITTED)
        if writes.event:
            type_, reason = ("Normal", NOMINATED) if writes.code == NOMINATED else ("Warning", "FailedScheduling")
            self._events.emit(about, type_, reason, writes.event, code=writes.code)

    def _reported(self, writes: Writes, patch: Patch, outcome: Outcome) -> None:
        if isinstance(outcome, Failed) and not isinstance(outcome.error, NotFound):
            self._reports.failed(writes, patch)
        self._reports.ended(writes.job)
        self._report_soon()

    def _ask_for_nodes(self, now: float) -> None:
        if settled := self._provisioning.after(self._reports.lacking_nodes(now), now):
            self._reports.look_again(settled, now)
            self._trigger()

    def nodes_in_use(self) -> set[str]:
        """The nodes to which pods are being bound, or will be when they have their volumes."""
        return self._executor.binding_to() | self._hand_overs.nodes() | self._limited.nodes()

    def unsettled(self) -> frozenset[str]:
        """The paths of objects with writes, sent or not, that are not settled, to be compared with a later answer."""
        pods = (key.partition("/") for key in self._hand_overs.pods() | self._limited.pods())
        later = {PODS.path(namespace, name) for namespace, _, name in pods}
        return self._executor.unsettled() | later | self.resizes.unsent()

    async def has_room(self, patience: float) -> None:
        """Wait until all pending writes but statuses can be in flight at once, up to a limit in seconds."""
        await self._executor.has_room(patience)

    def due(self, now: float) -> float | None:
        """When a write is due because of time alone."""
        parts = (self._reports.due(now), self._hand_overs.due(now), self.resizes.due(now))
        moments = (*parts, self.memory.due(), self._gates.due(now), self._provisioning.due())
        return min((moment for moment in moments if moment is not None), default=None)

    def _submit(self, work: Work, task: str | None, then: Callable[[], None] | None = None) -> None:
        """Send a write; `then` is called if it succeeds."""

        def done(_: Work, outcome: Outcome) -> None:
            self._count(work, outcome)
            if isinstance(work, Bind) and task is not None and isinstance(outcome, Failed):
                self._withdraw_gang(task, outcome)
            if isinstance(work, Bind) and task is not None and getattr(outcome, "final", True):
                self._batches.ended(task, not isinstance(outcome, Failed))
            if isinstance(work, Evict | Delete) and task is not None and getattr(outcome, "final", True):
                self._limited.evicted(task, not isinstance(outcome, Failed))
            if isinstance(outcome, Failed):
                if task is not None and not outcome.final:
                    # It is unknown whether the write happened: keep the assumption and try again.
                    self._submit(work, task, then)
                elif task is not None:
                    self._report_refused(work, outcome)
                    changed = isinstance(work, Bind) and isinstance(outcome.error, Conflict)
                    self._refusals.refused(task, _uid(work), at_once=changed)
            else:
                if task is not None:
                    self._refusals.done(task, _uid(work))
                    if isinstance(work, Bind):
                        self._cache.picture.pods.accept(task, work.uid, work.node)
                if then is not None:
                    then()

        self._executor.submit(work, done, since=self._decided)

    def _withdraw_gang(self, task: str, outcome: Failed) -> None:
        """A pod has changed since the decision: bind no more pods of its gang, so that all are decided again."""
        if isinstance(outcome.error, (Conflict, NotFound)) and outcome.error.reason != WITHDRAWN:
            if isinstance(outcome.error, Conflict) and (found := self._cache.find(task)) is not None:
                self._restless.refused(found.job, often=outcome.error.reason == OFTEN)
            why = Conflict(f"not sent, because `{task}` could not be bound", reason=WITHDRAWN)
            for other in self._batches.others(task):
                namespace, _, name = other.partition("/")
                self._executor.withdraw_bind(PODS.path(namespace, name), why)

    def _report_refused(self, work: Work, outcome: Failed) -> None:
        """Emit an event for a refused bind, unless the pod is gone or already has a node."""
        if isinstance(work, Bind) and not isinstance(outcome.error, (Conflict, NotFound)):
            what = f"could not be bound to `{work.node}`: {outcome.error}"
            self._events.emit(pod_reference(work.pod.key, work.uid), "Warning", "FailedScheduling", what)

    def _count(self, work: Work, outcome: Outcome) -> None:
        self.counts[f"{'failed' if isinstance(outcome, Failed) else 'done'}:{type(work).__name__}"] += 1

    # -- pods

    def _send_binds(self, cycle: Cycle) -> None:
        plan, jobs = cycle.plan, cycle.snapshot.jobs
        gangs: dict[str, dict[str, str]] = {}
        for bind in plan.bind:
            gangs.setdefault(cycle.pods[bind.task].job, {})[bind.task] = bind.node
        for job, nodes in gangs.items():
            self._batches.begin(job, nodes, had=int(jobs.ready[jobs.number[job]]))
        for bind in plan.bind:
            task = cycle.pods[bind.task]
            if not self._hand_overs.concerns(bind.task):
                self._submit_bind(bind.task, task.uid, bind.node)
            elif claims := self._hand_overs.begin(bind.task, task.uid, bind.node, cycle.now):
                what = f"waits on {bind.node} for the volumes of its claims: {', '.join(claims)}"
                self._events.emit(pod_reference(bind.task, task.uid), "Normal", "WaitForVolumes", what)
                # A successor keeps the room by this: tenants can write the claim's annotation, but not this field.
                namespace, _, name = bind.task.partition("/")
                body = {"status": {"nominatedNodeName": bind.node}}
                self._submit(Patch(PODS.path(namespace, name, "status"), body, "merge"), None)

    def _report_bound(self, batch: Batch) -> None:
        if batch.whole:
            self._restless.started(batch.job)
        if (subject := subject_of(self._cache.picture, self._cache.latest, batch.job)) is not None:
            # Thousands of pods that are jobs of their own may have one owner: it gets one event, with a count.
            of_owner = bool(batch.alone) and subject.tells.kind != PODS.kind
            self._events.emit(subject.tells, "Normal", "Scheduled", ONE_BOUND if of_owner else f"{batch}")
        for listener in self.on_given:
            listener(batch.job)

    def _submit_bind(self, pod: str, uid: str, node: str) -> None:
        if not self._limited.holds(pod, uid, node):
            self._send_bind(pod, uid, node)

    def _send_bind(self, pod: str, uid: str, node: str) -> None:
        seen, assumed = self._cache.picture.pod(pod), self._cache.picture.assumed.get(pod)
        if seen is None or seen.metadata.uid != uid:  # gone since the decision
            self._batches.ended(pod, given=False)
            return
        emit = None
        if self._pod_events() and not self._tells_itself(pod):
            told = pod_reference(pod, uid), "Normal", "Scheduled", assigned(pod, node)
            emit = partial(self._events.emit, *told)
        self._submit(Bind(seen, node, () if assumed is None else assumed.chosen), pod, emit)

    def _grow(self, job: str, may: bool) -> None:
        self.resizes.grow(job, may)

    def _drop_bind(self, pod: str) -> None:
        """The room in its queue is not there: decide about the pod again."""
        self._batches.ended(pod, given=False)
        self._cache.picture.assumed.forget(pod)
        self._trigger()

    def _tells_itself(self, pod: str) -> bool:
        """Whether a pod has the events of its job: its batch emits the same one."""
        task = self._cache.find(pod)
        if task is None or not self._cache.picture.is_alone(task.job):
            return False
        subject = subject_of(self._cache.picture, self._cache.latest, task.job)
        return subject is not None and subject.tells == pod_reference(pod, task.uid)

    def _submit_patch(self, patch: Work, then: Callable[[Outcome], None], lane: Lane = Lane.FIRST) -> None:
        def done(work: Work, outcome: Outcome) -> None:
            self._count(work, outcome)
            then(outcome)

        self._executor.submit(patch, done, lane)

    def _give_up_volumes(self, pod: str, why: str) -> None:
        """Forget the decision for a pod that cannot have its volumes on its node."""
        self.counts["failed:HandOver"] += 1
        self._batches.ended(pod, given=False)
        regarding = pod_reference(pod, self._cache.picture.assumed[pod].uid)
        self._events.emit(regarding, "Warning", "FailedScheduling", why)
        self._cache.picture.assumed.forget(pod)
        self._trigger()

    def _send_evictions(self, cycle: Cycle) -> None:
        for evict in cycle.plan.evict:
            task = cycle.pods[evict.task]
            seen = self._cache.picture.pod(evict.task)
            if seen is None or seen.metadata.uid != task.uid:
                self._limited.evicted(evict.task, accepted=True)
                continue
            kind = Delete if self._settings.delete_victims or not evict.budgets_apply else Evict
            # Emitted after the eviction: a budget may refuse it.
            emit = partial(self._events.emit, pod_reference(evict.task, task.uid), "Normal", "Preempted", evict.reason)
            self._submit(kind(seen, grace=evict.grace, gang=task.job, node=task.node), evict.task, emit)


def _uid(work: Work) -> str:
    return work.uid if isinstance(work, Bind | Evict | Delete) else ""
