"""muri: the model behind the results published with Muri (Zhao et al., SIGCOMM 2022), to the last digit.

Progress: one iteration takes the trace's iteration time times 1.015; between two events a running job loses a few
seconds (`OVERHEAD`, by network and GPUs) to being started again, whether or not it was.

Events: ends that are equal within 1e-9 of themselves are one, at the time of whoever is first in the list, and so are
arrivals. An arrival and an end are one where they are equal, as in the simulator that gave the published results: there
an arrival two milliseconds before an end, after two months, costs the job that was about to end its overhead once more.

Nodes: at every event all jobs are placed anew on empty nodes in the policy's order (`Nodes`). Jobs that are equal to
the policy keep the order of the list as it was; new ones are at its end. The policy is asked about its rows in that
order, and its own order, in which it asks who fits (`maar.elastic.order.Serve`), is the list from then on.

For tiresias GPUs are counted without nodes, events are exact, queues end at 3250 and 7200 GPU seconds, a job's place in
its queue is its place in the list, jobs that were not placed go behind those that were, and nobody is promoted. Queues,
order and sizes are those of the shipped algorithm, to which the place in the list is told as the time of the first
start. Only when the next demotion comes is reckoned here, since the published times are rounded in their own way.

Policies that serve in no order (ffdl, afs-l) or in several passes (elastic-tiresias) count GPUs without nodes, too.
"""

from __future__ import annotations

import math

import numpy as np

from maar.config.config import Registration, Serving
from maar.elastic import tiresias
from maar.elastic.jobs import Ints, Jobs, Mask
from maar.elastic.order import Serve, fitting
from maar.elastic.speedup import LINEAR, Floats
from maar.sim.models.model import Names
from maar.sim.setting import Setting
from maar.sim.trace import TraceJob

NAME = "muri"

SLOWER = 1.015
"""How much longer an iteration takes than the trace says, by the paper's measurement of its own overhead."""
LIMITS = (3250.0, 7200.0)
"""GPU seconds at which tiresias' queues end."""
NEVER = 1e9
"""A knob of tiresias by which nobody is promoted."""
EQUAL = 1e-9
"""Ends, and arrivals, that differ by less than so much of themselves are one event."""
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
"""Seconds that a start costs a network, on as many GPUs as in `GPUS`; between two of these, the larger's."""
OTHER = 10


def overhead(model: str, gpus: int) -> int:
    """Seconds that a start costs."""
    column = min(int(np.searchsorted(GPUS, gpus)), len(GPUS) - 1)
    return OVERHEAD[model][column] if model in OVERHEAD else OTHER


def iteration(job: TraceJob) -> float:
    """Seconds of one iteration. The trace's own number, in milliseconds, is restored first: the product is its."""
    if job.iteration_time is None or job.iterations is None:
        return 1.0
    return round(job.iteration_time * 1000, 6) * SLOWER / 1000


class Muri:
    """The jobs of one run: each is one worker with all its GPUs."""

    def __init__(self, jobs: list[TraceJob], policy: Registration, setting: Setting) -> None:
        if setting.faults.events or setting.faults.chance:
            raise ValueError("the model `muri` knows no failing or draining nodes")
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
        nothing = self._iteration == 0  # to do, however often
        self._left[nothing], self._iteration[nothing] = 0.0, 1.0
        self._overhead: Floats = np.array([float(overhead(job.model, job.gpus)) for job in jobs])
        self._executed: Floats = np.zeros(n)
        self._checked: Floats = np.zeros(n)
        self._queue: Ints = np.zeros(n, dtype=np.int64)
        self._list: Ints = np.zeros(0, dtype=np.int64)
        """Who is there."""
        self._running: Ints = np.zeros(0, dtype=np.int64)
        self._ends = np.inf
        """When the first of these end, as it was reckoned at the last event."""
        self._ending: Ints = np.zeros(0, dtype=np.int64)
        """Who they are."""
        self._runs: Mask = np.zeros(n, dtype=np.bool_)
        self._last = 0.0
        self._order: Ints | None = None
        """The policy's order in the last question, as rows of the list."""
        self._ones, self._none, self._zeros = np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros(n)
        self._rank = np.arange(n)
        self._place = self._rank.astype(np.float64)

    def advance(self, now: float) -> None:
        """Let the running jobs work, but for their overhead."""
        rows = self._running
        self._left[rows] -= np.maximum(now - self._last - self._overhead[rows], 0.0) / self._iteration[rows]
        self._executed[rows] = self._executed[rows] + now - self._checked[rows]
        self._checked[rows] = now
        self._last = now

    def ended(self, now: float) -> list[int]:
        """Those whose end it is."""
        gone = self._ending
        self._runs[gone] = False
        self._list = self._list[~np.isin(self._list, gone)]
        self._running = self._running[self._runs[self._running]]
        return list(gone.tolist())

    def arrive(self, first: int, last: int, now: float) -> None:
        """They are at the end of the list."""
        self._list = np.concatenate((self._list, np.arange(first, last)))

    def fail(self, now: float, first: int, last: int) -> list[int]:
        """Nothing fails here."""
        raise NotImplementedError

    def question(self, now: float) -> Jobs:
        """The list."""
        jobs = self._table()
        if self._queued:
            queue = tiresias.levels(jobs, LIMITS, NEVER)
            down = queue > self._queue[self._list]
            self._queue[self._list] = queue
            if down.any():  # to the end of the list, and so of its new queue; of several, who came first goes first
                self._list = np.concatenate((self._list[~down], np.sort(self._list[down])))
                jobs = self._table()
        return jobs

    def _table(self) -> Jobs:
        """Rows in the order of the list. GPU seconds by a hair more: here a queue ends where its limit is reached, in
        the algorithm where it is passed."""
        rows, n = self._list, len(self._list)
        ones, none, zeros = self._ones[:n], self._none[:n], self._zeros[:n]
        return Jobs(
            names=Names(self._names, rows),
            min=ones,
            max=ones,
            requested=ones,
            gpus=self.width[rows],
            priority=none,
            submit=zeros,
            remaining=self._left[rows] * self._iteration[rows],
            attained=np.nextafter(self._executed[rows] * self.width[rows], np.inf),
            first_start=self._place[:n],
            waited=zeros,
            ran=zeros,
            rank=self._rank[:n],
            curves=LINEAR.values(1),
            offset=none,
            reach=ones,
        )

    def _serve(self, order: Ints, needs: Ints, gpus: int) -> tuple[Ints, int]:
        """Who fits on empty nodes, or in a number of GPUs; the order is remembered."""
        self._order = order
        return (
            Nodes(self._setting.nodes, self._setting.gpus_per_node).serve(needs)
            if self._on_nodes
            else fitting(order, needs, gpus)
        )

    def suffices(self, now: float, workers: Ints) -> bool:
        """Nobody is left out."""
        return True

    def answer(self, now: float, workers: Ints, gpus: int) -> tuple[list[int], list[int]]:
        """All as the policy says; its order is the list from now on."""
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
        """The earliest."""
        return self._ends

    def next_change(self, now: float) -> float:
        """The next demotion, in whole seconds of executed time."""
        if not self._queued:
            return np.inf
        limits = np.array((*LIMITS, np.inf))[self._queue[self._running]]
        at = np.ceil(limits / self.width[self._running]) - self._executed[self._running] + now
        return float(at.min(initial=np.inf))


def first_end(ends: Floats, together: float) -> tuple[float, Ints]:
    """When the first end, and who: rows of `ends`, which are in the order of the list.

    Ends are equal within `together` of themselves; several that are equal have the time of who is first in the list.
    """
    least = float(ends.min(initial=np.inf))
    near = (ends <= least + 4 * together * abs(least)).nonzero()[0]  # no other is equal to who is equal to the least
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
    """Empty nodes on which jobs are placed in the policy's order."""

    def __init__(self, nodes: int, gpus_per_node: int) -> None:
        self._free = [gpus_per_node] * nodes
        self._each = gpus_per_node

    def serve(self, needs: Ints) -> tuple[Ints, int]:
        """Each in turn, if it fits on nodes: the places that do, and the GPUs left. A number of GPUs that does not fit
        once does not fit any more."""
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
        """Up to a node's GPUs on the first node with room; more on idle nodes, the rest on the first other one."""
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
