"""Pool depth: one elastic algorithm on counted GPUs, for very long traces.

Events come from the engine, and the model says how jobs progress. At each moment the shipped algorithm sets the number
of workers of each job, called and checked by `maar.elastic.allocate`. This depth does not call `decide`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from maar.config.config import Registration
from maar.elastic.allocate import allocate
from maar.model.resources import Ints, Mask
from maar.sim.engine import Calendar, SimEvent, SimEventKind
from maar.sim.faults import NodeEvent, What
from maar.sim.ledger import Ledger
from maar.sim.models.table import find
from maar.sim.result import Run
from maar.sim.setting import Setting
from maar.sim.trace import Trace

END, WAKE = SimEvent(SimEventKind.END), SimEvent(SimEventKind.WAKE)

Progress = Callable[[int, int], None]
"""Called with the number of ended jobs and the number of all jobs."""


def simulate(trace: Trace, policy: Registration, setting: Setting, progress: Progress | None = None) -> Run:
    pool = PoolPlay(trace, policy, setting)
    while pool.step():
        if progress is not None:
            progress(pool.done, pool.total)
    return pool.run()


class PoolPlay:
    """One run, event by event."""

    def __init__(self, trace: Trace, policy: Registration, setting: Setting) -> None:
        order = sorted(range(len(trace.jobs)), key=lambda i: trace.jobs[i].submit)
        jobs = [trace.jobs[i] for i in order]
        self._order: Ints = np.argsort(np.array(order, dtype=np.int64))
        """The job numbers in the order of the trace."""
        self._policy = policy
        self._setting = setting
        self.model = find(setting.model)(jobs, policy, setting)
        self.ledger = Ledger(jobs, self.model.width, self.model.alone)
        self.gpus = setting.gpus
        """GPUs that are up now."""
        self.done, self.total = 0, len(jobs)
        self._possible = self.model.least * self.model.width <= setting.gpus
        self._all_possible = bool(self._possible.all())
        self._left = int(self._possible.sum())
        self._down: dict[int, What] = {}
        self._calendar = Calendar(self.model.together)
        self._due = -math.inf
        """With an interval: the time of the next decision."""
        self._start = jobs[0].submit if jobs else 0.0
        self._arrivals([job.submit for job in jobs])
        self._faults = [setting.faults.of(node) for node in range(setting.nodes)]
        for fault in self._faults:
            self._announce(fault)

    def _arrivals(self, submits: list[float]) -> None:
        first = 0
        for number, submit in enumerate(submits):
            if number + 1 == len(submits) or submits[number + 1] != submit:
                self._calendar.add(submit, SimEvent(SimEventKind.ARRIVAL, (first, number + 1)))
                first = number + 1

    def _announce(self, fault: Iterator[NodeEvent]) -> None:
        event = next(fault, None)
        if event is not None:
            self._calendar.add(self._start + event.time, SimEvent(SimEventKind.NODE, event))

    def step(self) -> bool:
        """Run the next moment. Returns false if no event is left."""
        moment = self._calendar.next() if self._left else None
        if moment is None:
            return False
        now, events = moment
        self.model.advance(now)
        for event in events:
            self._handle(now, event)
        if self._is_time(now):
            self._decide(now)
        self._calendar.add(self.model.next_end(), END)
        self._calendar.add(self._next_wake(now), WAKE)
        self.ledger.moment(now, self.gpus)
        return True

    def _handle(self, now: float, event: SimEvent) -> None:
        if event.kind is SimEventKind.ARRIVAL:
            first, last = event.what
            for low, high in [event.what] if self._all_possible else _runs(self._possible[first:last], first):
                self.model.arrive(low, high, now)
                self.ledger.arrive(low, high)
        elif event.kind is SimEventKind.END:
            ended = self.model.ended(now)
            self.ledger.finish(now, ended)
            self.done += len(ended)
            self._left -= len(ended)
        elif event.kind is SimEventKind.NODE:
            self._node(now, event.what)

    def _node(self, now: float, event: NodeEvent) -> None:
        """Apply a node event. Node order gives the GPU numbers, counting only nodes that are up."""
        up = event.node not in self._down
        if event.what in (What.FAIL, What.DRAIN):
            if up and event.what is What.FAIL:
                first = (event.node - sum(node < event.node for node in self._down)) * self._setting.gpus_per_node
                hit = self.model.fail(now, first, first + self._setting.gpus_per_node)
                self.ledger.change(now, hit, [0] * len(hit))
            self._down[event.node] = event.what
        else:
            self._down.pop(event.node, None)
        self.gpus = self._setting.gpus - len(self._down) * self._setting.gpus_per_node
        self._announce(self._faults[event.node])

    def _is_time(self, now: float) -> bool:
        """Whether to decide now: at every event, or only at multiples of the interval."""
        interval = self._setting.interval
        if not interval:
            return True
        if self._due < now:
            self._due = math.ceil(now / interval) * interval
        return now >= self._due

    def _next_wake(self, now: float) -> float:
        interval = self._setting.interval
        if not interval:
            return self.model.next_change(now)
        if now >= self._due:
            self._due = (math.floor(now / interval) + 1) * interval
        return self._due if self.ledger.there else math.inf

    def _decide(self, now: float) -> None:
        workers = self._ask(now)
        while not self.model.suffices(now, workers):
            workers = self._ask(now)
        numbers, sizes = self.model.answer(now, workers, self.gpus)
        if numbers:
            self.ledger.change(now, numbers, sizes)
        self.ledger.decisions += 1

    def _ask(self, now: float) -> Ints:
        jobs = self.model.question(now)
        return allocate(self._policy, jobs, self.gpus, self.model.arguments, self.model.serve)

    def run(self) -> Run:
        return self.ledger.run(self._policy.name, self._setting.gpus, self._order)


def _runs(mask: Mask, first: int) -> list[tuple[int, int]]:
    """The spans (first, last + 1) of job numbers for which the mask is true."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(first + a, first + b) for a, b in edges.reshape(-1, 2).tolist()]
