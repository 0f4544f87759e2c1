"""Writes that the limit of a queue permits only because other writes free room in it: those come first.

A decision counts victims, and workers of a job that shrinks or stops, as gone. If Maar died after a bind and before the
eviction was sent, the queue would have more than its limit, until the victim ends by itself. So binds, and jobs that
grow or start, wait until the writes that free room in their queue are accepted. They are dropped if one is refused:
then the next cycle decides again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from maar.model.plan import Plan
from maar.model.snapshot import Snapshot
from maar.session.state import queue_sums


class LimitedWrite(NamedTuple):
    """A write that takes or frees room in a queue: to a pod, or to an elastic job."""

    pod: str = ""
    job: str = ""


class QueueUser(NamedTuple):
    """What a write takes or frees."""

    queues: frozenset[str]
    """The limited queues above it."""
    requests: Counter[str]


class Held(NamedTuple):
    """The bind of a pod that waits."""

    uid: str
    node: str


@dataclass(eq=False, slots=True)
class LimitedWrites:
    """Holds writes back, and lets them go when the room that they need is free.

    `bind` sends the bind of a pod with a uid to a node, `drop` gives it up. `grow` says that an elastic job may
    grow now, or that it may not.
    """

    _bind: Callable[[str, str, str], None]
    _drop: Callable[[str], None]
    _grow: Callable[[str, bool], None]
    _freeing: dict[LimitedWrite, QueueUser] = field(default_factory=dict)
    """Writes that are not answered. Snapshots count workers that leave, but not evicted pods."""
    _asked: Counter[LimitedWrite] = field(default_factory=Counter)
    """How many answers are missing: a job may shrink again before the first one."""
    _waits: dict[LimitedWrite, frozenset[LimitedWrite]] = field(default_factory=dict)
    """Writes to those that must be accepted first."""
    _held: dict[str, Held] = field(default_factory=dict)
    """Pods that would be bound now."""

    def take(self, plan: Plan, snapshot: Snapshot) -> None:
        """Find the writes of a plan that must wait. Nothing of the plan has been sent."""
        smaller = [change.job for change in plan.resize if change.after < change.before]
        smaller += [change.job for change in plan.suspend]
        if not plan.evict and not smaller and not self._freeing:
            return
        limits = {queue.name: queue.capability for queue in snapshot.queues.queues if queue.capability}
        if not limits:
            return
        freeing = {LimitedWrite(pod=evict.task): _pod(snapshot, evict.task, limits) for evict in plan.evict}
        freeing |= {LimitedWrite(job=job): _job(snapshot, job, 0, limits) for job in smaller}
        freeing = {write: user for write, user in freeing.items() if user.queues}
        taking = {LimitedWrite(pod=bind.task): _pod(snapshot, bind.task, limits) for bind in plan.bind}
        taking |= {LimitedWrite(job=job): _job(snapshot, job, more, limits) for job, more in _larger(plan)}
        self._find(snapshot, limits, freeing, taking)
        self._freeing.update(freeing)
        self._asked.update(freeing.keys())

    def _find(
        self,
        snapshot: Snapshot,
        limits: dict[str, dict[str, int]],
        new: dict[LimitedWrite, QueueUser],
        taking: dict[LimitedWrite, QueueUser],
    ) -> None:
        """Which of the writes that take room must wait. More may wait than need to, because each answer comes soon."""
        freeing = self._freeing | new
        concerned = {name for user in freeing.values() for name in user.queues}
        concerned &= {name for user in taking.values() for name in user.queues}
        if not concerned:
            return
        sums = queue_sums(snapshot, snapshot.jobs.allocated)
        for name in sorted(concerned):
            used = Counter(snapshot.axes.amounts(sums[snapshot.queues.number[name]].tolist()))
            for user in (*self._freeing.values(), *taking.values()):
                if name in user.queues:
                    used.update(user.requests)
            if any(used[resource] > most for resource, most in limits[name].items()):
                first = frozenset(write for write, user in freeing.items() if name in user.queues)
                for write, user in taking.items():
                    if name in user.queues:
                        self._waits[write] = self._waits.get(write, frozenset()) | first

    def holds(self, pod: str, uid: str, node: str) -> bool:
        """Whether the bind of a pod waits; then it is sent later, or dropped."""
        if LimitedWrite(pod=pod) not in self._waits:
            return False
        self._held[pod] = Held(uid, node)
        return True

    def holds_job(self, job: str) -> bool:
        """Whether an elastic job may not grow yet; `grow` is called later."""
        return LimitedWrite(job=job) in self._waits

    def evicted(self, pod: str, accepted: bool) -> None:
        """The eviction of a pod was accepted, or refused for good."""
        self._answered(LimitedWrite(pod=pod), accepted)

    def shrunk(self, job: str, accepted: bool) -> None:
        """The smaller size of a job was written, or refused."""
        self._answered(LimitedWrite(job=job), accepted)

    def _answered(self, first: LimitedWrite, accepted: bool) -> None:
        if first not in self._freeing:
            return
        self._asked[first] -= 1
        done = self._asked[first] <= 0
        if done:
            del self._freeing[first], self._asked[first]
        for write, waits_for in list(self._waits.items()):
            if first not in waits_for:
                continue
            left = waits_for - {first} if done else waits_for
            if accepted and left:
                self._waits[write] = left
                continue
            del self._waits[write]
            self._let_go(write, accepted)

    def _let_go(self, write: LimitedWrite, accepted: bool) -> None:
        held = self._held.pop(write.pod, None)
        if write.job:
            self._grow(write.job, accepted)
        elif not accepted:
            self._drop(write.pod)  # also if it still waits for its volumes, and would be bound later
        elif held is not None:
            self._bind(write.pod, held.uid, held.node)

    def nodes(self) -> set[str]:
        return {held.node for held in self._held.values()}

    def pods(self) -> frozenset[str]:
        return frozenset(self._held)


def _larger(plan: Plan) -> Iterator[tuple[str, int]]:
    """The elastic jobs that grow or start, and by how many workers."""
    yield from ((change.job, change.after - change.before) for change in plan.resize if change.after >= change.before)
    yield from ((change.job, change.size) for change in plan.resume)


def _pod(snapshot: Snapshot, task: str, limited: Container[str]) -> QueueUser:
    tasks = snapshot.tasks
    row = tasks.number[task]
    above = _above(snapshot, int(tasks.job[row]), limited)
    return QueueUser(above, Counter(dict(tasks.tasks[row].shape.requests)))


def _job(snapshot: Snapshot, key: str, more: int, limited: Container[str]) -> QueueUser:
    row = snapshot.jobs.number[key]
    elastic = snapshot.jobs.jobs[row].elastic
    requests = () if elastic is None else elastic.shape.requests
    return QueueUser(_above(snapshot, row, limited), Counter({name: n * more for name, n in requests}))


def _above(snapshot: Snapshot, job: int, limited: Container[str]) -> frozenset[str]:
    """The limited queues above a job."""
    queue = int(snapshot.jobs.queue[job])
    above = snapshot.queues.path[queue] if queue >= 0 else ()
    return frozenset(name for q in above if (name := snapshot.queues.queues[q].name) in limited)
