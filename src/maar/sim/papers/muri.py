"""muri: reproduces the results published with Muri (Zhao et al., SIGCOMM 2022), to the last digit.

Progress: one iteration takes the trace's iteration time multiplied by 1.015. Between two events, a running job loses a
few seconds (`OVERHEAD`, by network and GPUs) to a restart, whether or not it was restarted.

Events: ends within a relative tolerance of 1e-9 are one event, at the time of the first of them in the list; arrivals
likewise. An arrival and an end are one event only if they are equal, as in the simulator of the published results:
there an arrival two milliseconds before an end, after two months, costs the ending job its overhead once more.

Nodes: at every event, all jobs are placed again on empty nodes in the policy's order (`Nodes`). Jobs with equal rank
keep their order in the list; new jobs are at its end. The policy gets its rows in the order of the list. Its own order,
in which it asks which jobs fit (`maar.elastic.order.Serve`), becomes the new list.

For tiresias, GPUs are counted without nodes and events are exact. Queues end at 3250 and 7200 GPU seconds, a job's
place in its queue is its place in the list, jobs that were not placed follow the placed jobs, and no job is promoted.
Queues, order and sizes come from the shipped algorithm, which gets the place in the list as the time of the first
start. Only the time of the next demotion is computed here, because the published times are rounded in a special way.

Policies that serve in no order (ffdl, afs-l) or in several passes (elastic-tiresias) also count GPUs without nodes.
"""

from __future__ import annotations

import math

import numpy as np

from maar.config.config import Registration, Serving
from maar.elastic import tiresias
from maar.elastic.jobs import Ints, Jobs, Mask, filled
from maar.elastic.order import Serve, fitting
from maar.elastic.speedup import LINEAR, Floats
from maar.sim.models.model import Names
from maar.sim.setting import Setting
from maar.sim.trace import TraceJob

NAME = "muri"

SLOWER = 1.015
"""Factor on iteration times: the overhead that the paper measured."""
LIMITS = (3250.0, 7200.0)
"""GPU seconds at which the queues of tiresias end."""
NEVER = 1e9
"""A knob of tiresias with which no job is promoted."""
EQUAL = 1e-9
"""Relative tolerance for simultaneous ends and for simultaneous arrivals."""
GPUS = (1, 2, 4, 8, 16, 32)
OVERHEAD = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "bert": (10, 10, 10, 10, 10, 10),
    "gpt2": (10, 10, 10, 10, 10, 10),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
"""Seconds per start by network, for the numbers of GPUs in `GPUS`; other numbers use the next larger one."""
OTHER = 10


def overhead(model: str, gpus: int) -> int:
    column = min(int(np.searchsorted(GPUS, gpus)), len(GPUS) - 1)
    return OVERHEAD[model][column] if model in OVERHEAD else OTHER


def iteration(job: TraceJob) -> float:
    """Seconds per iteration. Multiplies the trace's value in milliseconds, to round like the published results."""
    if job.iteration_time is None or job.iterations is None:
        return 1.0
    return round(job.iteration_time * 1000, 6) * SLOWER / 1000


class Muri:
    """The jobs of one run. Each job is one worker with all its GPUs."""

    def __init__(self, jobs: list[TraceJob], policy: Registration, setting: Setting) -> None:
        if setting.faults.events or setting.faults.chance:
            raise ValueError("model `muri` does not support failing or draining nodes")
        n = len(jobs)
        self._setting = setting
        self._names = [job.name for job in jobs]
        self._queued = policy.name == tiresias.NAME
        self._on_nodes = policy.serving is Serving.IN_LINE and not self._queued
        self.serve: Serve | None = None if policy.serving is Serving.TOGETHER else self._serve
        self.together = 0.0 if self._queued else EQUAL
        self.arguments = tiresias.Arguments(LIMITS, knob=NEVER) if self._queued else policy.arguments()
        self.width: Ints = np.array([max(job.gpus, 1) for job in jobs], dtype=np.int64)
        self.least: Ints = np.ones(n, dtype=np.int64)
        self._iteration: Floats = np.array([iteration(job) for job in jobs])
        self._left: Floats = np.array([job.duration if job.iterations is None else job.iterations for job in jobs])
        self.alone: Floats = self._left * self._iteration
        empty = self._iteration == 0  # without work, whatever the number of iterations
        self._left[empty], self._iteration[empty] = 0.0, 1.0
        self._overhead: Floats = np.array([float(overhead(job.model, job.gpus)) for job in jobs])
        self._executed: Floats = np.zeros(n)
        self._checked: Floats = np.zeros(n)
        self._queue: Ints = np.zeros(n, dtype=np.int64)
        self._list: Ints = np.zeros(0, dtype=np.int64)
        """Active jobs."""
        self._running: Ints = np.zeros(0, dtype=np.int64)
        self._ends = np.inf
        """The next end, as computed at the last event."""
        self._ending: Ints = np.zeros(0, dtype=np.int64)
        """The jobs that end then."""
        self._runs: Mask = np.zeros(n, dtype=np.bool_)
        self._last = 0.0
        self._order: Ints | None = None
        """The policy's order in the last question, as rows of the list."""
        self._ones = np.ones(n, dtype=np.int64)
        self._rank = np.arange(n)
        self._place = self._rank.astype(np.float64)

    def advance(self, now: float) -> None:
        """Let the running jobs progress, minus their overhead."""
        rows = self._running
        self._left[rows] -= np.maximum(now - self._last - self._overhead[rows], 0.0) / self._iteration[rows]
        self._executed[rows] = self._executed[rows] + now - self._checked[rows]
        self._checked[rows] = now
        self._last = now

    def ended(self, now: float) -> list[int]:
        gone = self._ending
        self._runs[gone] = False
        self._list = self._list[~np.isin(self._list, gone)]
        self._running = self._running[self._runs[self._running]]
        return list(gone.tolist())

    def arrive(self, first: int, last: int, now: float) -> None:
        """Add jobs at the end of the list."""
        self._list = np.concatenate((self._list, np.arange(first, last)))

    def fail(self, now: float, first: int, last: int) -> list[int]:
        raise NotImplementedError

    def question(self, now: float) -> Jobs:
        jobs = self._table()
        if self._queued:
            queue = tiresias.levels(jobs, LIMITS, NEVER)
            down = queue > self._queue[self._list]
            self._queue[self._list] = queue
            if down.any():  # to the end of the list, and so of the new queue, in the order of submission
                self._list = np.concatenate((self._list[~down], np.sort(self._list[down])))
                jobs = self._table()
        return jobs

    def _table(self) -> Jobs:
        """Rows in the order of the list. GPU seconds are one float step larger: here a queue ends at its limit, in the
        algorithm above it."""
        rows, n = self._list, len(self._list)
        ones = self._ones[:n]
        return filled(
            Names(self._names, rows),
            LINEAR.values(1),
            max=ones,
            requested=ones,
            gpus=self.width[rows],
            remaining=self._left[rows] * self._iteration[rows],
            attained=np.nextafter(self._executed[rows] * self.width[rows], np.inf),
            first_start=self._place[:n],
            rank=self._rank[:n],
            reach=ones,
            size=self._runs[rows].astype(np.int64),
            measured=ones,
        )

    def _serve(self, order: Ints, needs: Ints, gpus: int) -> tuple[Ints, int]:
        """Remember the order, and serve the jobs that fit on empty nodes or, without nodes, in the counted GPUs."""
        self._order = order
        return (
            Nodes(self._setting.nodes, self._setting.gpus_per_node).serve(needs)
            if self._on_nodes
            else fitting(order, needs, gpus)
        )

    def suffices(self, now: float, workers: Ints) -> bool:
        return True

    def answer(self, now: float, workers: Ints, gpus: int) -> tuple[list[int], list[int]]:
        """Apply the policy's answer; its order becomes the list."""
        rows = self._list
        runs = workers > 0
        changed = runs != self._runs[rows]
        numbers, sizes = rows[changed], workers[changed]
        self._checked[numbers] = now
        self._runs[rows] = runs
        if self._order is not None:
            self._list = rows[self._order]
        placed = self._runs[self._list]
        self._running = self._list[placed]
        if self._queued:
            self._list = np.concatenate((self._running, self._list[~placed]))
        ends = now + self._left[self._running] * self._iteration[self._running]
        self._ends, first = first_end(ends, self.together)
        self._ending = self._running[first]
        return numbers.tolist(), sizes.tolist()

    def next_end(self) -> float:
        return self._ends

    def next_change(self, now: float) -> float:
        """The next demotion, in whole seconds of executed time."""
        if not self._queued:
            return np.inf
        limits = np.array((*LIMITS, np.inf))[self._queue[self._running]]
        at = np.ceil(limits / self.width[self._running]) - self._executed[self._running] + now
        return float(at.min(initial=np.inf))


def first_end(ends: Floats, together: float) -> tuple[float, Ints]:
    """The time of the first end, and the rows of `ends` that end then; rows are in the order of the list.

    Ends within the relative tolerance `together` are equal, at the time of the first of them in the list.
    """
    least = float(ends.min(initial=np.inf))
    near = (ends <= least + 4 * together * abs(least)).nonzero()[0]  # all ends that may be equal to the first
    if len(near) <= 1:
        return least, near
    groups: dict[float, list[int]] = {}
    for row in near.tolist():
        end = float(ends[row])
        time = next((time for time in groups if math.isclose(time, end, rel_tol=together)), end)
        groups.setdefault(time, []).append(row)
    time = min(groups)
    return time, np.array(groups[time], dtype=np.int64)


class Nodes:
    """Nodes, empty at first, on which jobs are placed in the policy's order."""

    def __init__(self, nodes: int, gpus_per_node: int) -> None:
        self._free = [gpus_per_node] * nodes
        self._each = gpus_per_node

    def serve(self, needs: Ints) -> tuple[Ints, int]:
        """Place each job in turn if it fits. Returns the indexes of the placed jobs and the GPUs left. Once a number of
        GPUs does not fit, later jobs with that number are skipped."""
        served: list[int] = []
        places: Ints = np.arange(len(needs))
        at = 0
        while at < len(places):
            for place, need in zip(places[at:].tolist(), needs[at:].tolist(), strict=True):
                at += 1
                if not self._put(need):
                    smaller = needs[at:] != need
                    places, needs, at = places[at:][smaller], needs[at:][smaller], 0
                    break
                served.append(place)
        return np.array(served, dtype=np.int64), sum(self._free)

    def _put(self, need: int) -> bool:
        """A job of up to one node goes to the first node with room; a larger one to idle nodes, its rest to another."""
        whole, rest = (0, need) if need <= self._each else divmod(need, self._each)
        idle = [node for node, free in enumerate(self._free) if free == self._each][:whole] if whole else []
        if len(idle) < whole:
            return False
        used = set(idle)
        if rest:
            other = next((n for n, free in enumerate(self._free) if free >= rest and n not in used), None)
            if other is None:
                return False
            self._free[other] -= rest
        for node in idle:
            self._free[node] = 0
        return True
