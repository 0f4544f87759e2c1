"""One roll-out: one possible future of the cluster, in which every job has a drawn run time.

The same cycle as in `maar.sim.cluster`, but from the state of a live cluster, and only until every waiting job has
started once. At each event `decide` gets a snapshot of the virtual cluster, and its plan takes effect at once.

Events that are close together are one moment, with one decision. In a long backlog two things more keep decisions few
and cheap. The further ahead, the longer a moment lasts; a job that starts in it starts when its nodes became free, so
no room is lost between two decisions. And only some of the waiting gangs take part in a decision (`candidates`).
`bench.rollouts` measures the error of both.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice

import msgspec
from msgspec.structs import replace

from maar.config.config import Config
from maar.decide import decide
from maar.forecast.candidates import StartCandidates
from maar.forecast.rough import WorkLeft, rough_starts
from maar.forecast.start import Begin, StartState, made_pods, size_of
from maar.model.jobs import Job, Phase
from maar.model.plan import Bind, Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status, Task
from maar.sim.virtual import Virtual
from maar.sim.works import Costs, JobWork

ROUNDS = 20
"""Maximum cycles at one moment, as in the simulator."""
SOON = 1.0
"""Minimum seconds until the next cycle that only time causes, as in the simulator."""
BATCH = 60.0
"""Events within this many seconds are one moment, and time alone causes no moment sooner after another."""
GROWS = 0.03
"""Events within this part of the time since the start of the forecast are one moment too. Tuned by hand on seed 0 of
`bench.rollouts --error`; docs/forecasts.md has the error on other seeds."""
MORE = 4.0
"""How many times as many candidates take part after a decision that started none. Tuned by hand."""
STUCK = 30
"""Moments without a start, after which a roll-out in which nothing ends any more is over. Tuned by hand."""
HORIZON = 30 * 86400.0
"""A roll-out ends after this time."""
MayGoOn = Callable[[], bool]


def always() -> bool:
    """No budget."""
    return True


class Arrival(msgspec.Struct, frozen=True):
    """A job that is not submitted yet."""

    at: float
    job: Job
    tasks: tuple[Task, ...]
    begin: Begin
    seconds: float
    """Run time at its requested size."""


class RolloutOutcome(msgspec.Struct, frozen=True):
    """When jobs started and ended in one roll-out. A job that did not has no entry."""

    starts: dict[str, float]
    ends: dict[str, float]
    decisions: int


class Precision(msgspec.Struct, frozen=True):
    """Which events are one moment, with one decision, and how many jobs are looked at."""

    batch: float = BATCH
    grows: float = GROWS
    selects: bool = True
    """Whether only some waiting gangs take part in a decision (`candidates`)."""


FAST = Precision()
CAREFUL = Precision(grows=0.0, selects=False)
"""All jobs are asked, and only events less than a minute apart are one moment."""
EXACT = Precision(0.0, 0.0, selects=False)
"""Each event has decisions of its own, about all jobs: with it, the error of the rest can be measured."""
SHORT = 100
"""Up to this many waiting jobs, roll-outs are careful; above, fast. Tuned by hand."""


def precision_for(waiting: int) -> Precision:
    """How precise roll-outs are, by the number of waiting jobs: a long backlog leaves no time for every decision."""
    return CAREFUL if waiting <= SHORT else FAST


class Prelude(msgspec.Struct, frozen=True):
    """The first moment, which is the same in all roll-outs."""

    cluster: Cluster
    resting: frozenset[str]
    wake: float
    lost: frozenset[str]
    """Jobs with evicted pods."""

    @classmethod
    def of(cls, cluster: Cluster) -> Prelude:
        """Without any decision."""
        return cls(cluster, frozenset(), math.inf, frozenset())


class Ended(Exception):
    """The time for forecasts is used up."""


class Rollout:
    """One future, event by event."""

    def __init__(
        self,
        cluster: Cluster,
        config: Config,
        now: float,
        begins: Mapping[str, Begin],
        seconds: Mapping[str, float | None],
        *,
        arrivals: Iterable[Arrival] = (),
        precision: Precision = FAST,
        horizon: float = HORIZON,
        prelude: Prelude | None = None,
        plan: Plan | None = None,
        may_go_on: MayGoOn = always,
    ) -> None:
        """`seconds` has the drawn run time of each job at its requested size; `None` if nothing is known of it.

        `arrivals` come in order of time. Without a `prelude`, the first moment is decided here, or ends with `Ended`;
        `plan` is its first decision, if that is known.
        """
        self._virtual = Virtual.of(cluster if prelude is None else prelude.cluster)
        self._config, self._now, self._precision, self._until = config, now, precision, now + horizon
        pools = [pool.restart for pool in config.pools]
        self._costs = Costs(restart=max(pools, default=0.0))
        self._works = {
            key: _work(b, seconds.get(key), now) for key, b in begins.items() if b.state is not StartState.OVER
        }
        self._reports = {
            key for key, b in begins.items() if b.job.elastic is not None and b.job.elastic.remaining < math.inf
        }
        self._awaited = {key for key, b in begins.items() if b.state is StartState.WAITING}
        there = self._virtual.jobs
        self._candidates = StartCandidates(there[key] for key in sorted(self._awaited & there.keys()))
        self._arrivals = iter(arrivals)
        self._coming = deque(islice(self._arrivals, 1))
        """The next arrivals: at least one, unless there are no more."""
        self._resting: frozenset[str] = frozenset()
        self._asked: frozenset[str] = frozenset()
        """The candidates of the last decision."""
        self._vain = 0
        """Decisions at this moment that started nothing."""
        self._wake = math.inf
        self._decisions = 0
        self.starts: dict[str, float] = {}
        self.ends: dict[str, float] = {}
        self._lost: set[str] = set()
        self._last = self._first = now
        """The last moment, and the first event in it."""
        self._freed: dict[str, float] = {}
        """By node: the last end of a job on it."""
        self._idle = (0, 0)
        """Starts so far, and moments since the last one in which nothing is left that ends."""
        self._may_go_on = may_go_on
        if prelude is None:
            self._decide(now, plan)
        else:
            self._take(prelude)

    def prelude(self) -> Prelude:
        """The state of a roll-out that has not been played: after the cycles of its first moment."""
        return Prelude(self._virtual.cluster(), self._resting, self._wake, frozenset(self._lost))

    def _take(self, prelude: Prelude) -> None:
        self._resting, self._wake = prelude.resting, prelude.wake
        for key in sorted(self._works):
            if key in self._virtual.jobs:
                self._resize(self._now, key, size_of(*self._virtual.jobs[key]), key in prelude.lost)
            else:
                del self._works[key]

    def play(self, except_for: Iterable[str] = ()) -> RolloutOutcome:
        """Play until all waiting jobs, except for those that never start, have started once; or ends with `Ended`."""
        self._awaited.difference_update(except_for)
        while self._awaited:
            now = self._next()
            if now > self._until or self._is_stuck():
                break
            self._last = now
            self._end(now)
            self._arrive(now)
            if now >= self._wake:
                self._wake_up()
            self._decide(now)
        return self.so_far()

    def so_far(self) -> RolloutOutcome:
        """What has been played."""
        ends = {key: end for key, work in self._works.items() if (end := _expected_end(work, self._last)) < math.inf}
        return RolloutOutcome(self.starts, {**ends, **self.ends}, self._decisions)

    def rough(self, except_for: Collection[str] = ()) -> dict[str, tuple[float, float]]:
        """How it would go on, roughly: a start, and the latest one, of each waiting job that has not started."""
        ahead = []
        for key, work in self._works.items():
            if key in self._virtual.jobs and key not in except_for:
                job, tasks = self._virtual.jobs[key]
                left = work.end - self._last if work.size else work.left / work.speeds[_requested(job)]
                ahead.append(WorkLeft(job, tasks, max(left, 0.0), work.size > 0))
        found = rough_starts(self._virtual.around.nodes, ahead, self._last)
        return {key: starts for key, starts in found.items() if key in self._awaited}

    def _wake_up(self) -> None:
        """Only time has passed. While nodes are locked for a gang, it alone among the gangs may be helped by that."""
        if self._precision.selects and self._virtual.around.elect is not None:
            self._resting &= self._candidates.keys
        else:
            self._resting = frozenset()

    def _is_stuck(self) -> bool:
        """Whether no job will end or arrive any more, and some moments that only time caused brought no start."""
        if self._coming or any(work.end < math.inf for work in self._works.values()):
            self._idle = len(self.starts), 0
            return False
        starts, idle = self._idle
        self._idle = len(self.starts), idle + 1 if starts == len(self.starts) else 0
        return self._idle[1] > STUCK

    def _next(self) -> float:
        """The time of the next moment: that of the last event shortly after the first one."""
        events = [work.end for work in self._works.values()]
        events.append(self._wake)
        events.extend(arrival.at for arrival in self._coming)
        self._first = first = min(events)
        lasts = max(self._precision.batch, self._precision.grows * min(first - self._now, HORIZON))
        latest = max(first + lasts, self._last)
        while self._coming and self._coming[-1].at <= latest and (more := next(self._arrivals, None)) is not None:
            self._coming.append(more)
            events.append(more.at)
        # Within a moment jobs may start and end again: the next moment is then the same time, and no earlier one.
        return max(self._last, max((at for at in events if at <= latest), default=math.inf))

    def _end(self, now: float) -> None:
        for key in [key for key, work in self._works.items() if work.end <= now]:
            self.ends[key] = end = self._works.pop(key).end
            for task in self._virtual.jobs[key][1]:
                self._freed[task.node] = max(self._freed.get(task.node, end), end)
            self._virtual.remove(key)
            self._resting = frozenset()

    def _arrive(self, now: float) -> None:
        while self._coming and self._coming[0].at <= now:
            arrival = self._coming.popleft()
            self._coming.extend(() if self._coming else islice(self._arrivals, 1))
            self._virtual.put(arrival.job, arrival.tasks)
            self._candidates.add(arrival.job, arrival.tasks)
            self._works[arrival.job.key] = _work(arrival.begin, arrival.seconds, now)

    def _decide(self, now: float, known: Plan | None = None) -> None:
        self._vain = 0
        for _ in range(ROUNDS):
            self._report(now)
            snapshot = self._virtual.snapshot()
            if known is None:
                plan = self._decided(snapshot, now)
            else:
                plan, self._asked = known, self._candidates.keys
            known, around = None, snapshot.cluster
            self._apply(now, plan)
            grew = bool(plan.resize or plan.resume)
            again = bool(_gives(plan) or plan.admit) or (grew and not self._bind_reserved(now, plan))
            if plan.lets_go(around.elect, around.locks):
                again, self._resting = True, frozenset()
            self._vain = 0 if plan.bind or again else self._vain + 1
            if not again and not self._is_one_left():
                break
        at = now if again else math.inf if plan.wake_at is None else plan.wake_at
        self._wake = max(at, now + max(SOON, self._precision.batch))

    def _decided(self, snapshot: Snapshot, now: float) -> Plan:
        if not self._may_go_on():
            raise Ended
        number = snapshot.jobs.number
        rest = self._resting
        if self._precision.selects:
            self._asked = self._chosen(snapshot)
            rest |= self._candidates.resting(self._asked)
        snapshot.resting = frozenset(number[key] for key in rest if key in number)
        snapshot.is_read = False  # only whether a job waits is used, not the reason
        self._decisions += 1
        return decide(snapshot, self._config, now)

    def _bind_reserved(self, now: float, plan: Plan) -> bool:
        """Bind new workers where a plan that only lets jobs grow reserves room for them, without another cycle.

        Returns false if some pods have no such place.
        """
        reserved: dict[str, list[str]] = {}
        if any(reserve.beside for reserve in plan.reserve):
            return False
        for reserve in sorted(plan.reserve, key=lambda h: (h.job, h.node)):
            reserved.setdefault(reserve.job, []).extend([reserve.node] * reserve.count)
        binds: list[Bind] = []
        for key in sorted({*(r.job for r in plan.resize), *(r.job for r in plan.resume)}):
            new = [task for task in self._virtual.jobs[key][1] if task.status is Status.PENDING]
            nodes = reserved.pop(key, [])
            if len(new) != len(nodes):
                return False
            binds.extend(Bind(task.key, node) for task, node in zip(new, nodes, strict=True))
        rest = tuple(reserve for reserve in plan.reserve if reserve.job in reserved)
        kept = Plan(elect=plan.elect, locks=plan.locks, facts=plan.facts)
        self._apply(now, replace(kept, bind=tuple(binds), nominate=plan.nominate, reserve=rest))
        return True

    def _report(self, now: float) -> None:
        """Estimates of the remaining work, for jobs that report it."""
        for key in self._reports & self._works.keys():
            work = self._works[key]
            job, tasks = self._virtual.jobs[key]
            left = work.news(now)
            if left is not None and job.elastic is not None:
                self._virtual.put(replace(job, elastic=replace(job.elastic, remaining=left)), tasks)

    def _apply(self, now: float, plan: Plan) -> None:
        owner = (
            {task.key: key for key, (_, tasks) in self._virtual.jobs.items() for task in tasks} if plan.evict else {}
        )
        lost = {owner[e.task] for e in plan.evict}
        if _gives(plan):
            self._first = now  # the room that it takes is free only now
        self._lost |= lost
        created: set[str] = set()
        for key in sorted(self._virtual.carry_out(plan, now)):
            if key not in self._virtual.jobs:
                self._works.pop(key, None)  # a pod without a controller was evicted
                continue
            job, tasks = self._virtual.jobs[key]
            if not tasks and job.elastic is None and job.phase is Phase.INQUEUE:
                tasks = made_pods(job, now)
                self._virtual.put(job, tasks)
                created.add(key)
            at = now if lost else self._room_since(now, job, tasks)
            self._resize(at, key, size_of(job, tasks), key in lost)
            if key in lost:
                self._candidates.add(job, tasks)
        refused = {wait.job for wait in plan.waiting}
        if self._precision.selects:
            refused -= self._candidates.resting(self._asked)
        self._resting = frozenset() if _gives(plan) else (self._resting | refused) - created

    def _is_one_left(self) -> bool:
        """Whether a candidate that fits has not been asked at this moment."""
        return self._precision.selects and not self._chosen(self._virtual.snapshot()) <= self._asked

    def _chosen(self, snapshot: Snapshot) -> frozenset[str]:
        """The candidates; more of them after decisions that started none."""
        return self._candidates.chosen(snapshot, self._resting, MORE**self._vain)

    def _room_since(self, now: float, job: Job, tasks: tuple[Task, ...]) -> float:
        """When the nodes of a job that runs now became free in this moment; `now` if it ran before.

        In a long moment that is their average: if it were the last of them, the others would be idle until then, and
        the cluster would lose room.
        """
        work = self._works.get(job.key)
        if work is None or work.size:
            return now
        freed = [max(self._freed.get(task.node, self._first), self._first) for task in tasks if task.node]
        if not freed:
            return now
        since = math.fsum(freed) / len(freed) if now - self._first > self._precision.batch else max(freed)
        return min(max(since, job.created), now)

    def _resize(self, now: float, key: str, size: int, lost: bool) -> None:
        work = self._works.get(key)
        if work is None or size == work.size:
            return
        work.resize(now, size, self._costs, lost)
        if size:
            self._candidates.started(key)
        if size and key in self._awaited:
            self._awaited.discard(key)
            self.starts[key] = now


def _gives(plan: Plan) -> bool:
    """Whether the plan takes room from jobs, which others may use."""
    return bool(plan.evict or plan.suspend or any(r.after < r.before for r in plan.resize))


def _expected_end(work: JobWork, now: float) -> float:
    """The end of a job at its current size; one that is stopped now starts again soon, as it was first asked for."""
    if work.size or not work.started:
        return work.end
    return now + work.left / work.speeds[-1]


def _requested(job: Job) -> int:
    """The size at which a job runs as it was asked for; a gang runs or does not."""
    return 1 if job.elastic is None else min(job.elastic.requested or job.elastic.min, job.elastic.max)


def _work(begin: Begin, seconds: float | None, now: float) -> JobWork:
    """The work of a job, in seconds on one worker; without end if its run time is unknown."""
    left = math.inf if seconds is None else max(seconds - begin.elapsed, 0.0) * begin.reference
    elastic = begin.job.elastic
    if elastic is not None and elastic.remaining < math.inf:
        left = elastic.remaining
    work = JobWork(0, left, list(begin.speeds), epoch=left / 100 if left < math.inf else math.inf)
    work.started = begin.elapsed > 0.0
    if begin.size:
        work.size, work.started, work.moves = begin.size, True, now
        work.end = now + left / begin.speeds[begin.size]
    return work
