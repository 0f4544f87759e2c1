"""Cluster depth: full sessions on virtual nodes, with gangs, queues, preemption, placement and elastic jobs.

Runs the cycle of `maar run` on a virtual clock. At each event, `decide` gets a snapshot of the virtual cluster, and its
plan takes effect at once. This repeats until a plan only binds pods: evicted pods are gone by then, and resumed jobs
have pods. As in `maar run`, a waiting job is not considered again until something changes that can help it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from maar.config.config import Config
from maar.decide import decide
from maar.model.fitting import how_many
from maar.model.jobs import Job
from maar.model.minimum import has_minimum
from maar.model.nodes import Node
from maar.model.plan import Plan
from maar.model.resources import Ints
from maar.model.tasks import Status, Task
from maar.sim.engine import Calendar, SimEvent, SimEventKind
from maar.sim.faults import NodeEvent, What
from maar.sim.ledger import Ledger
from maar.sim.lengths import Lengths
from maar.sim.pool import Progress
from maar.sim.result import Run
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob
from maar.sim.virtual import ROLE, Virtual, key_of, make_job, make_nodes, room_of_node, shape_of
from maar.sim.works import Costs, JobWork, make_work

ROUNDS = 20
"""Maximum cycles at one moment: evicting, resuming and binding take three. Tuned by hand."""
SOON = 1.0
"""Minimum seconds until the next cycle, when a moment used up its `ROUNDS` or only time changes the answer."""


def simulate(
    trace: Trace,
    config: Config,
    setting: Setting,
    name: str,
    managed: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Run one configuration on one trace. With `managed`, the pool's algorithm starts and stops rigid jobs too."""
    play = ClusterPlay(trace, config, setting, managed)
    while play.step():
        if progress is not None:
            progress(play.done, play.total)
    return play.run(name)


class ClusterPlay:
    """One run, event by event."""

    def __init__(self, trace: Trace, config: Config, setting: Setting, managed: bool = False) -> None:
        order = sorted(range(len(trace.jobs)), key=lambda i: trace.jobs[i].submit)
        self._jobs = [trace.jobs[i] for i in order]
        self._order: Ints = np.argsort(np.array(order, dtype=np.int64))
        self._config, self._setting, self._managed = config, setting, managed
        self._costs = Costs(setting.restart, setting.checkpoint)
        self._nodes: list[Node] = make_nodes(setting.nodes, setting.gpus_per_node)
        self.virtual = Virtual(self._nodes, (job.queue for job in self._jobs))
        self.works: dict[str, JobWork] = {}
        self._has_estimate = [setting.lengths == "known" and (managed or job.elastic) for job in self._jobs]
        """Whether the size of each job, by number, is decided, so that it needs an estimate of its remaining work."""
        self._moving: dict[str, JobWork] = {}
        """Jobs whose estimate may change: running jobs and new jobs."""
        width = np.array([max(job.gpus_per_worker, 1) for job in self._jobs], dtype=np.int64)
        self.ledger = Ledger(self._jobs, width, np.array([job.duration for job in self._jobs]))
        self.done, self.total = 0, len(self._jobs)
        self._lengths = Lengths(setting.lengths == "learnt")
        self._to_come = sum(_possible(job, setting) for job in self._jobs)
        self._down: dict[int, What] = {}
        self._resting: frozenset[str] = frozenset()
        self._wakes = False
        """Whether time alone will change the plan."""
        self.plans: list[tuple[float, Plan]] = []
        """The plans of the last moment, one per cycle."""
        self._calendar = Calendar()
        self._start = self._jobs[0].submit if self._jobs else 0.0
        for number, job in enumerate(self._jobs):
            if _possible(job, setting):
                self._calendar.add(job.submit, SimEvent(SimEventKind.ARRIVAL, number))
        self._faults = [setting.faults.of(node) for node in range(setting.nodes)]
        for fault in self._faults:
            self._announce(fault)

    def _announce(self, fault: Iterator[NodeEvent]) -> None:
        event = next(fault, None)
        if event is not None:
            self._calendar.add(self._start + event.time, SimEvent(SimEventKind.NODE, event))

    def step(self) -> bool:
        """Run the next moment. Returns false if no event is left that can help a job."""
        moment = None if self._is_over() else self._calendar.next()
        if moment is None:
            return False
        now, events = moment
        for event in events:
            self._handle(now, event)
        self._decide(now)
        self._calendar.add(min((w.end for w in self._moving.values()), default=math.inf), SimEvent(SimEventKind.END))
        self.ledger.moment(now, self._setting.gpus - len(self._down) * self._setting.gpus_per_node)
        return True

    def _is_over(self) -> bool:
        """Whether all jobs have ended, or the rest is stuck: no arrivals, no running jobs, all nodes up, no moves."""
        if self._to_come or self.ledger.running:
            return False
        stuck = bool(self.plans) and not self._wakes and not self.plans[-1][1].moves
        return not self.works or (stuck and not self._down)

    # -- events

    def _handle(self, now: float, event: SimEvent) -> None:
        if event.kind is SimEventKind.ARRIVAL:
            self._arrive(now, event.what)
        elif event.kind is SimEventKind.END:
            self._end(now)
        elif event.kind is SimEventKind.NODE:
            self._node(now, event.what)
        else:
            self._resting = frozenset()

    def _arrive(self, now: float, number: int) -> None:
        job = self._jobs[number]
        made, tasks = make_job(job, now, self._managed, self._setting.restart)
        self.virtual.put(self._lengths.with_estimate(made, tasks), tasks)
        self.works[key_of(job)] = self._moving[key_of(job)] = make_work(number, job)
        self.ledger.arrive(number, number + 1)
        self._to_come -= 1

    def _end(self, now: float) -> None:
        ended = [key for key, work in self.works.items() if work.end <= now]
        self.ledger.finish(now, [self.works[key].number for key in ended])
        for key in ended:
            self._lengths.ended(*self.virtual.jobs[key], self._jobs[self.works[key].number].duration)
            del self.works[key]
            self._moving.pop(key, None)
            self.virtual.remove(key)
        if ended and self._lengths.is_time(now):
            self._estimate_again()
        self.done += len(ended)
        self._resting = frozenset()

    def _estimate_again(self) -> None:
        """Estimates of jobs that have not started; gangs that have keep theirs."""
        for key, (job, tasks) in list(self.virtual.jobs.items()):
            may_change = job.elastic is not None or not self.works[key].started
            if may_change and (known := self._lengths.with_estimate(job, tasks)) is not job:
                self.virtual.put(known, tasks)

    def cancel(self, key: str) -> None:
        """Delete a job that waits, as its owner may. Jobs behind it may start at the next event."""
        self.ledger.leave(self.works.pop(key).number)
        self._moving.pop(key, None)
        self.virtual.remove(key)
        self._resting = frozenset()

    def _node(self, now: float, event: NodeEvent) -> None:
        """Apply a node event. A failing or drained node stops every gang that has a pod on it."""
        if event.what in (What.FAIL, What.DRAIN):
            if event.node not in self._down:
                self._empty(now, self._nodes[event.node].name, lost=event.what is What.FAIL)
            self._down[event.node] = event.what
        else:
            self._down.pop(event.node, None)
        self.virtual.set_nodes(node for i, node in enumerate(self._nodes) if i not in self._down)
        self._resting = frozenset()
        self._announce(self._faults[event.node])

    def _empty(self, now: float, node: str, lost: bool) -> None:
        for key, (job, tasks) in list(self.virtual.jobs.items()):
            if not any(task.node == node and task.status is Status.BOUND for task in tasks):
                continue
            kept: tuple[Task, ...] = ()
            if job.elastic is not None and job.is_elastic:
                job = replace(job, elastic=replace(job.elastic, suspended=True, reserved=()))
            else:
                kept = tuple(replace(t, status=Status.PENDING, node="", started=None, created=now) for t in tasks)
            self.virtual.put(job, kept)
            self._resize(now, key, 0, lost)

    # -- decisions

    def _decide(self, now: float) -> None:
        self.plans = []
        for _ in range(ROUNDS):
            self._update_estimates(now)
            snapshot = self.virtual.snapshot()
            number = snapshot.jobs.number
            snapshot.resting = frozenset(number[key] for key in self._resting if key in number)
            snapshot.is_read = False  # only the fact that a job waits is used, not the reason
            plan, around = decide(snapshot, self._config, now), snapshot.cluster
            self.ledger.decisions += 1
            self.plans.append((now, plan))
            self._apply(now, plan)
            again = _needs_another(plan)
            if plan.lets_go(around.elect, around.locks):
                again, self._resting = True, frozenset()
            if not again:
                break
        at = now if again else math.inf if plan.wake_at is None else plan.wake_at
        self._wakes = at < math.inf
        self._calendar.add(max(at, now + SOON), SimEvent(SimEventKind.WAKE))

    def _update_estimates(self, now: float) -> None:
        """Update estimates of remaining work. They are exact and at most an epoch old; live ones come from reports."""
        for key, work in self._moving.items():
            remaining = work.news(now) if self._has_estimate[work.number] else None
            if remaining is not None:
                job, tasks = self.virtual.jobs[key]
                assert job.elastic is not None
                self.virtual.put(replace(job, elastic=replace(job.elastic, remaining=remaining)), tasks)
        self._moving = {key: work for key, work in self._moving.items() if work.size}

    def _apply(self, now: float, plan: Plan) -> None:
        lost = Counter(e.task.rpartition(f"-{ROLE}-")[0] for e in plan.evict)
        for key in sorted(self.virtual.carry_out(plan, now)):
            self._resize(now, key, _workers(*self.virtual.jobs[key]), bool(lost[key]))
        gave = plan.evict or plan.suspend or any(r.after < r.before for r in plan.resize)
        self._resting = frozenset() if gave else self._resting | {w.job for w in plan.waiting}

    def _resize(self, now: float, key: str, size: int, lost: bool) -> None:
        work = self.works[key]
        if size != work.size:
            work.resize(now, size, self._costs, lost)
            self._moving[key] = work
            self.ledger.change(now, (work.number,), (size,))

    def run(self, name: str) -> Run:
        return self.ledger.run(name, self._setting.gpus, self._order)


def _needs_another(plan: Plan) -> bool:
    """Whether the plan frees room or creates pods, so that another cycle at the same moment can do more."""
    return bool(plan.evict or plan.admit or plan.resize or plan.suspend or plan.resume)


def _workers(job: Job, tasks: tuple[Task, ...]) -> int:
    """The workers that make progress: 0 if fewer than the minimum are bound."""
    bound = [task for task in tasks if task.status is Status.BOUND]
    return len(bound) if has_minimum(job, bound) else 0


def _possible(job: TraceJob, setting: Setting) -> bool:
    """Whether the minimum size of a job fits on the empty nodes."""
    room, request = room_of_node(setting.gpus_per_node), dict(shape_of(job).requests)
    each = how_many([room.get(name, 0) for name in request], list(request.values()))
    return each * setting.nodes >= (job.min if job.elastic else job.workers)
