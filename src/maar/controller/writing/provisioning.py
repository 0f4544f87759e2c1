"""ProvisioningRequests: one for each gang that needs new nodes, if the configuration asks for them.

`next_steps` is pure: from one gang and its requests to what is to be done. Pods are annotated with their request before
any condition says `Unschedulable`; otherwise an autoscaler would add nodes for the request and for the pods as well.

    none ──ask──► asked ──► provisioned ──► the gang starts: the request is withdrawn
                    │            └──► expired, revoked ──► asked again soon
                    └──► failed ──► asked again, after growing pauses
"""

from __future__ import annotations

import enum
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from maar.controller.snapshots.cache import Cache
from maar.kube.client.errors import NotFound
from maar.kube.kinds.cluster import PODS as PODS_KIND
from maar.kube.kinds.cluster import PROVISIONING_REQUESTS
from maar.kube.picture.job_objects import subject_of
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import PODS
from maar.kube.wire.provisioning import ProvisioningRequest
from maar.kube.wire.references import Reference
from maar.kube.write.outcomes import Failed, Outcome
from maar.kube.write.provisioning import MOST_SETS, AskForNodes, PodSet, Withdraw, request_name
from maar.kube.write.work import Patch, Work
from maar.model.jobs import Job
from maar.model.minimum import choose
from maar.model.shapes import Shape
from maar.model.snapshot import Snapshot
from maar.model.tasks import READY, Status, Task

LINGERS = 30.0
"""Seconds that a request stays after its gang stopped needing nodes for another reason than its start, because such
reasons come and go; tuned by hand."""
PAUSES = {"FAILED": 60.0, "EXPIRED": 5.0, "REVOKED": 5.0}
"""Seconds before the second attempt, by how the first ended; each later pause is twice as long. Tuned by hand."""
LONGEST_PAUSE = 3600.0
TRY_AGAIN = 60.0
"""Seconds after which a write that was refused is tried again: a quota or a missing right refuses it for longer than a
cycle. Tuned by hand."""


class RequestState(enum.Enum):
    """What the autoscaler says about a request."""

    ASKED = "Accepted"
    PROVISIONED = "Provisioned"
    FAILED = "Failed"
    EXPIRED = "BookingExpired"
    """The gang did not start while its nodes were kept for it."""
    REVOKED = "CapacityRevoked"


_LAST_FIRST = (RequestState.REVOKED, RequestState.EXPIRED, RequestState.FAILED, RequestState.PROVISIONED)
"""Conditions stay when others are added, so the one that comes last in the life of a request counts."""


class SeenRequest(msgspec.Struct, frozen=True):
    """A request as last seen."""

    name: str
    attempt: int
    demand: str
    sets: int
    class_name: str
    state: RequestState = RequestState.ASKED
    since: float = 0.0
    """When it got into this state."""
    message: str = ""

    @property
    def is_over(self) -> bool:
        return self.state in (RequestState.FAILED, RequestState.EXPIRED, RequestState.REVOKED)

    @property
    def again_at(self) -> float:
        """When to ask again, for a request that is over."""
        return self.since + min(PAUSES[self.state.name] * 2.0 ** min(self.attempt - 1, 20), LONGEST_PAUSE)


class RequestedGang(msgspec.Struct, frozen=True):
    """One gang, and what was asked for it."""

    demand: str
    """Identifies what must be asked for; empty: nothing, because its minimum has started."""
    lacks_nodes: bool
    since: float
    """Since when it lacks nodes, or no longer does."""
    consumes: Mapping[str, str]
    """Its waiting pods, each with the request that it is annotated with."""
    asked: tuple[SeenRequest, ...] = ()


class Steps(msgspec.Struct, frozen=True):
    """What is to be done for one gang."""

    ask: int = 0
    """The attempt to ask for nodes; 0: none."""
    annotate: tuple[str, ...] = ()
    """Pods that must name the request `consume`."""
    consume: str = ""
    withdraw: tuple[SeenRequest, ...] = ()
    due: float | None = None
    """When to look again because of time alone."""

    @property
    def is_settled(self) -> bool:
        """Whether every waiting pod names its request, so that conditions may say `Unschedulable`."""
        return bool(self.consume) and not self.annotate


def next_steps(gang: RequestedGang, class_name: str, now: float) -> Steps:
    """What is to be done now."""
    if not gang.demand:
        return Steps(withdraw=gang.asked)
    if not gang.lacks_nodes:
        over = now >= gang.since + LINGERS
        return Steps(withdraw=gang.asked if over else (), due=None if over or not gang.asked else gang.since + LINGERS)
    last = max(gang.asked, key=lambda asked: asked.attempt, default=None)
    if last is None:
        return Steps(ask=1)
    if (last.demand, last.class_name) != (gang.demand, class_name):
        return Steps(ask=last.attempt + 1)
    annotate = tuple(sorted(pod for pod, request in gang.consumes.items() if request != last.name))
    earlier = () if annotate else tuple(asked for asked in gang.asked if asked is not last)
    again = last.is_over and now >= last.again_at
    due = last.again_at if last.is_over and not again else None
    return Steps(last.attempt + 1 if again else 0, annotate, last.name, earlier, due)


@dataclass(eq=False, slots=True)
class Provisioning:
    """Asks for nodes, one request for each gang.

    `class_name` returns the configured class, or an empty text if no requests are to be made.
    """

    _cache: Cache
    _class_name: Callable[[], str]
    _submit: Callable[[Work, Callable[[Work, Outcome], None]], None]
    _emit: Callable[[Reference, str, str, str], None]
    _lacking: dict[str, tuple[bool, float]] = field(default_factory=dict)
    """By job: whether it lacks nodes, and since when."""
    _on_its_way: set[str] = field(default_factory=set)
    """Requests and pods whose write is not answered, or answered and not seen yet."""
    _told: dict[str, RequestState] = field(default_factory=dict)
    """What the owner of a job was last told, by request."""
    _settled: dict[str, str] = field(default_factory=dict)
    """Jobs whose waiting pods all name their request, with its name; empty: no request is made for the job."""
    _again: dict[str, float] = field(default_factory=dict)
    """Writes that failed, and when they may be tried again."""
    _now: float = 0.0
    _due: float | None = None

    @property
    def on(self) -> bool:
        return bool(self._class_name()) and PROVISIONING_REQUESTS in self._cache.picture.served

    def may_be_unschedulable(self, job: str) -> bool:
        """Whether the conditions of a job's pods may say `Unschedulable`, which makes autoscalers add nodes."""
        if not self.on:
            return True
        request, number = self._settled.get(job), self._cache.latest.jobs.number.get(job)
        if not request or number is None:
            return request is not None
        # Pods may have been created since the last cycle.
        sets = missing_pods(self._cache.latest, self._cache.latest.jobs.jobs[number])
        return all(named == request for named in self._consumes(sets).values())

    @property
    def has_work(self) -> bool:
        """Whether there are requests to make, or to withdraw."""
        return self.on or bool(self._cache.picture.objects.of(PROVISIONING_REQUESTS))

    def due(self) -> float | None:
        """When something is due because of time alone."""
        return self._due if self.has_work else None

    def after(self, lacking: Iterable[str], now: float) -> set[str]:
        """Send what is due after a cycle; `lacking` are the jobs for which nodes are missing.

        Returns the jobs for which `may_be_unschedulable` has changed.
        """
        if not self.on:
            lacking = ()
        self._now = now
        for what in [what for what, at in self._again.items() if now >= at]:
            del self._again[what]
            self._on_its_way.discard(what)
        asked, before = self._by_job(), self._settled
        names = {request.name for found in asked.values() for request in found}
        self._told = {name: state for name, state in self._told.items() if name in names}
        self._settled = {}
        lacks = set(lacking)
        for job in lacks - {job for job, (does, _) in self._lacking.items() if does}:
            self._lacking[job] = (True, now)
        for job in [job for job, (does, _) in self._lacking.items() if does and job not in lacks]:
            self._lacking[job] = (False, now)
        dues: list[float] = []
        for job in asked.keys() - self._lacking.keys():  # of an earlier leader
            self._lacking[job] = (False, now)
        for job in sorted(self._lacking):
            due = self._go_on(job, asked.get(job, []), now)
            if due is not None:
                dues.append(due)
        self._due = min((*dues, *self._again.values()), default=None)
        return before.keys() ^ self._settled.keys()

    def _by_job(self) -> dict[str, list[SeenRequest]]:
        """Our requests, by job."""
        found: dict[str, list[SeenRequest]] = defaultdict(list)
        for item in self._cache.picture.objects.of(PROVISIONING_REQUESTS).values():
            job = item.metadata.annotations.get(known.REQUEST_JOB, "")
            if job in self._cache.latest.jobs.number and not self._cache.own.has_job(job):
                continue
            if job.partition("/")[0] == item.namespace and (request := read(item)) is not None:
                found[job].append(request)
                self._on_its_way.discard(item.key)
        return found

    def _go_on(self, job: str, found: list[SeenRequest], now: float) -> float | None:
        number = self._cache.latest.jobs.number.get(job)
        subject = subject_of(self._cache.picture, self._cache.latest, job)
        if number is None or subject is None:
            del self._lacking[job]
            self._withdraw(job, found)
            return None
        uid = subject.reference.uid
        asked = tuple(request for request in found if request.name == request_name(job, uid, request.attempt))
        self._withdraw(job, [request for request in found if request not in asked])
        sets = missing_pods(self._cache.latest, self._cache.latest.jobs.jobs[number])
        lacks, since = self._lacking[job]
        if not self.on and (left := self._naming(number, asked)):
            # Autoscalers leave pods out that name a request, also one that does not exist any more.
            for pod in left:
                self._annotate(pod, "")
            return None
        gang = RequestedGang(demand(sets), lacks, since, self._consumes(sets), asked)
        steps = next_steps(gang, self._class_name(), now)
        self._tell(subject.reference, asked)
        if steps.ask and len(sets) <= MOST_SETS:
            self._ask(job, steps.ask, gang, sets, subject.reference)
        for pod in steps.annotate:
            self._annotate(pod, steps.consume)
        self._withdraw(job, steps.withdraw)
        if len(sets) > MOST_SETS:
            self._settled[job] = ""
        elif steps.is_settled:
            self._settled[job] = steps.consume
        if not lacks and not asked:
            del self._lacking[job]
        return steps.due

    def _consumes(self, sets: Mapping[Shape, list[Task]]) -> dict[str, str]:
        pods = self._cache.picture.objects.of(PODS_KIND)
        keys = (task.key for tasks in sets.values() for task in tasks)
        return {key: pods[key].metadata.annotations.get(known.CONSUMES_REQUEST, "") for key in keys if key in pods}

    def _naming(self, number: int, asked: Iterable[SeenRequest]) -> list[str]:
        """The waiting pods of a job that name one of these requests."""
        names, jobs, pods = {request.name for request in asked}, self._cache.latest.jobs, self._cache.picture.objects
        rows = jobs.members[number].tolist()
        keys = [
            task.key for task in map(self._cache.latest.tasks.tasks.__getitem__, rows) if task.status is Status.PENDING
        ]
        found = ((key, pods.of(PODS_KIND).get(key)) for key in keys)
        return [key for key, pod in found if pod and pod.metadata.annotations.get(known.CONSUMES_REQUEST) in names]

    def _ask(
        self, job: str, attempt: int, gang: RequestedGang, sets: Mapping[Shape, list[Task]], owner: Reference
    ) -> None:
        picture = self._cache.picture
        namespace = job.partition("/")[0]
        name = request_name(job, owner.uid, attempt)
        notes = {
            known.REQUEST_JOB: job,
            known.REQUEST_DEMAND: gang.demand,
            known.REQUEST_ATTEMPT: str(attempt),
            known.REQUEST_SETS: str(len(sets)),
        }
        pods = tuple(PodSet(tasks[0].key, len(tasks)) for tasks in sets.values())
        resource = picture.resource(PROVISIONING_REQUESTS)
        work = AskForNodes(resource, namespace, name, self._class_name(), pods, notes, owner)
        self._send(f"{namespace}/{name}", work)

    def _annotate(self, pod: str, request: str) -> None:
        """Let a pod name a request, or none."""
        namespace, _, name = pod.partition("/")
        kind = self._class_name() if request else None
        notes = {known.CONSUMES_REQUEST: request or None, known.CONSUMES_CLASS: kind}
        self._send(
            f"{pod} {request}", Patch(PODS.path(namespace, name), {"metadata": {"annotations": notes}}), seen=True
        )

    def _withdraw(self, job: str, asked: Iterable[SeenRequest]) -> None:
        resource = self._cache.picture.resource(PROVISIONING_REQUESTS)
        namespace = job.partition("/")[0]
        for request in asked:
            work = Withdraw(resource, namespace, request.name, request.sets)
            self._send(f"withdraw {namespace}/{request.name}", work, seen=True)

    def _send(self, what: str, work: Work, seen: bool = False) -> None:
        """Send once until it is answered, and unless `seen` until a watch shows it."""
        if what in self._on_its_way:
            return
        self._on_its_way.add(what)

        def done(_: Work, outcome: Outcome) -> None:
            if isinstance(outcome, Failed) and not isinstance(outcome.error, NotFound):
                self._again[what] = self._now + TRY_AGAIN
            elif seen or isinstance(outcome, Failed):
                self._on_its_way.discard(what)
            else:
                self._again[what] = self._now + TRY_AGAIN  # it may be deleted before a cycle sees it

        self._submit(work, done)

    def _tell(self, owner: Reference, asked: tuple[SeenRequest, ...]) -> None:
        for request in asked:
            if request.state is RequestState.ASKED or self._told.get(request.name) is request.state:
                continue
            self._told[request.name] = request.state
            kind = "Warning" if request.is_over else "Normal"
            self._emit(owner, kind, request.state.value, f"autoscaler: {request.name}: {request.message}"[:1000])


def read(item: ProvisioningRequest) -> SeenRequest | None:
    """A request of ours; `None` if its annotations are not those that Maar writes."""
    notes = item.metadata.annotations
    attempt, sets = notes.get(known.REQUEST_ATTEMPT, ""), notes.get(known.REQUEST_SETS, "")
    if not all(text.isascii() and text.isdecimal() and len(text) < 8 for text in (attempt, sets)):
        return None
    true = {c.type: c for c in item.status.conditions if c.status == "True"}
    state = next((state for state in _LAST_FIRST if state.value in true), RequestState.ASKED)
    condition = true.get(state.value)
    at = condition.last_transition_time if condition is not None else None
    return SeenRequest(
        item.name,
        int(attempt),
        notes.get(known.REQUEST_DEMAND, ""),
        min(int(sets), MOST_SETS),
        item.spec.provisioning_class_name,
        state,
        at.timestamp() if at is not None else 0.0,
        condition.message if condition is not None else "",
    )


def missing_pods(snapshot: Snapshot, job: Job) -> dict[Shape, list[Task]]:
    """The waiting pods of the minimum that a job lacks, by what a node must offer them."""
    tasks = snapshot.tasks_of(job.index)
    there = [task for task in tasks if task.status in READY]
    chosen = choose(job, there, [task for task in tasks if task.status is Status.PENDING and not task.unborn])
    sets: dict[Shape, list[Task]] = defaultdict(list)
    for task in chosen:
        shape = task.shape
        sets[Shape(shape.requests, shape.node_selector, shape.node_terms, (), shape.tolerations)].append(task)
    return dict(sets)


def demand(sets: Mapping[Shape, list[Task]]) -> str:
    """Identifies what pods need, in a few characters; empty if there are none."""
    lines = sorted(f"{len(tasks)} {shape}" for shape, tasks in sets.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] if lines else ""
