"""The loop: decides when to run a cycle, runs it, and publishes it; if somebody carries out plans, hands it the plan.

A cycle runs after an event, at the time that the last plan named (`wake_at`), and after the resync time. Events during
a cycle belong to the next one. On a quiet cluster an event is decided at once. Cycles are further apart as soon as
there is something to gather: the last cycle had more than one event, or the next event came before all writes of the
last cycle were answered. The pause between two cycles also grows with their duration, so that reading and writing get
their share of the CPU, and with the backlog of writes, because more decisions would gain nothing then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec.structs import replace

from maar.config.config import ActionOption, Config
from maar.controller.record import Frame, Recorder
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.settings import Settings
from maar.controller.snapshots.cache import Cache
from maar.controller.snapshots.cycle import Cycle
from maar.kube.client.backoff import happens
from maar.model.plan import Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.session.extension import Action
from maar.session.session import Session
from maar.shards.shard import Standing, Step, decide_as

logger = logging.getLogger("maar.controller")

IN_A_THREAD = 20
"""With this many jobs or more, a decision runs in a thread, so that watches are read meanwhile; tuned by hand."""


class Carrier(Protocol):
    """Carries out plans: the outbox."""

    def send(self, cycle: Cycle, decided: float | None = None) -> None: ...

    async def all_sent(self, patience: float) -> None: ...

    async def all_answered(self, patience: float) -> None: ...

    async def has_room(self, patience: float) -> None: ...

    def report(self, cycle: Cycle) -> None: ...

    def due(self, now: float) -> float | None: ...


class ShardFront(Protocol):
    """What one of several schedulers knows besides the cluster, and does besides its plan: `shards.front`."""

    @property
    def active(self) -> bool: ...

    @property
    def wanting(self) -> frozenset[str]: ...

    def standing(self, snapshot: Snapshot, now: float) -> Standing: ...

    def after(self, step: Step, cycle: Cycle) -> None: ...

    def turned(self) -> None: ...

    def wake_at(self, now: float) -> float | None: ...


@dataclass(eq=False, slots=True)
class Timed:
    """An action that measures its duration."""

    _action: Action
    _name: str
    _listeners: list[Callable[[str, float], None]]

    def execute(self, session: Session) -> None:
        begun = time.perf_counter()
        self._action.execute(session)
        for listener in self._listeners:
            listener(self._name, time.perf_counter() - begun)


@dataclass(eq=False, slots=True)
class Loop:
    """Runs cycles."""

    _cache: Cache
    _config: Callable[[], tuple[Config, str | None]]
    _settings: Settings
    _brakes: Brakes
    _recorder: Recorder | None = None
    clock: Callable[[], float] = time.time
    stopwatch: Callable[[], float] = time.perf_counter
    """Measures how long cycles take."""
    _happened: asyncio.Event = field(default_factory=asyncio.Event)
    _events: int = 0
    """How many events no cycle has seen."""
    _later: asyncio.TimerHandle | None = None
    _known_config: Config | None = None
    _last_look: float = float("-inf")
    _look_at: float | None = None
    """When time alone changes the decision about some job."""
    _timed: tuple[Config, Config] | None = None
    on_cycle: list[Callable[[Cycle], None]] = field(default_factory=list)
    on_action: list[Callable[[str, float], None]] = field(default_factory=list)
    """Called with the name and the seconds of each action, maybe from another thread."""
    _decided: Plan | None = None
    """The last plan."""
    _decided_at: float = 0.0
    """When it was decided, by the monotonic clock."""
    _seconds: float = 0.0
    """How long the last cycle took, without the wait for its binds."""
    cycles: int = 0

    def trigger(self, *, wake: bool = False) -> None:
        """Run a cycle for an event. `wake`: look at all jobs in it."""
        if wake:
            self._cache.wake_all()
        self._events += 1
        self._happened.set()

    @property
    def is_due(self) -> bool:
        """Whether something has happened that no cycle has seen."""
        return self._happened.is_set()

    def trigger_later(self, *, wake: bool = False) -> None:
        """Run a cycle for an event that is not urgent."""
        if wake:
            self._cache.wake_all()
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(self._settings.later, self._look_later)

    def _look_later(self) -> None:
        self._later = None
        self._cache.picture.read_short()
        self.trigger()

    async def run(self, outbox: Carrier | None = None, shards: ShardFront | None = None) -> None:
        """Run cycles until cancelled. Without an outbox, nothing is carried out."""
        self._cache.start_over()
        self.trigger()
        wake: float | None = None
        window = 0.0
        while True:
            await self._wait(wake, window)
            if self._happened.is_set():
                await asyncio.sleep(self._settings.gather_after(room=self._cache.is_woken))
            events, self._events = self._events, 0
            self._happened.clear()
            begun = asyncio.get_running_loop().time()
            wake = await self.once(outbox, shards)
            # In the first cycle all jobs count as changed, but nothing has happened yet.
            news = len(self._cache.changed) if self.cycles > 1 else 0
            window = await self._pause(begun, self._seconds, news, events, outbox)

    async def _pause(self, begun: float, seconds: float, news: int, events: int, outbox: Carrier | None) -> float:
        """Leave time for reading and writing after a cycle, and gather events; end early if there is little of both.

        Returns for how many more seconds time alone causes no cycle.
        """
        settings, pause = self._settings, self._settings.pause_after(seconds, news)
        at_least = max(settings.min_interval - seconds, min(pause, settings.shortest_pause))
        if self._decided is not None and self.cycles > 1:
            at_least = max(at_least, settings.rest_after(seconds, len(self._decided.waiting), len(self._decided.bind)))
        if outbox is None:
            await asyncio.sleep(pause)
            return 0.0
        clock = asyncio.get_running_loop().time
        until = ends = clock() + at_least
        if events <= 1 and at_least <= settings.min_interval:
            await outbox.all_answered(at_least)
            if not self._happened.is_set():
                until = min(ends, begun + settings.quiet_distance(seconds))
        await asyncio.sleep(until - clock())
        await outbox.has_room(max(pause - at_least, settings.backlog))
        return max(ends - clock(), 0.0)

    async def _wait(self, wake: float | None, window: float) -> None:
        ends = self._last_look + self._settings.resync
        timeout = max(min(ends, wake if wake is not None else ends) - self.clock(), window)
        await happens(self._happened, timeout)

    async def once(self, outbox: Carrier | None = None, shards: ShardFront | None = None) -> float | None:
        """Run one cycle; returns when the next one is due because of time alone."""
        started, self._seconds = self.stopwatch(), 0.0
        if shards is not None and not shards.active:
            self._last_look = self.clock()
            shards.turned()
            return None  # its last shard was given back
        now = self.clock()
        config, text = self._config()
        time_has_come = self._look_at is not None and now >= self._look_at
        if config is not self._known_config or time_has_come or now >= self._last_look + self._settings.resync:
            self._known_config = config
            self._cache.wake_all()
        if not self._cache.has_resting:
            self._last_look = now
            self._look_at = None
        # 1 snapshot
        snapshot = self._cache.snapshot(now)
        standing = None if shards is None else shards.standing(snapshot, now)
        # 2 to 4: open, act, plan
        measured = self._measured(config)
        try:
            taken = await self._decide(snapshot, measured, now, standing)
        except Exception as error:  # noqa: BLE001 its cause is set aside, or it is raised again
            snapshot = await self._without_culprits(error, config, now, standing)
            standing = None if shards is None else shards.standing(snapshot, now)
            taken = await self._decide(snapshot, measured, now, standing)
        decided = self._brakes.apply(taken.plan, snapshot, now, standing)
        own = self._cache.own
        if not own.is_all:
            decided = replace(decided, waiting=tuple(w for w in decided.waiting if own.has_job(w.job)))
        self._decided = decided
        cycle = self._cache.publish(self.cycles + 1, decided, now)
        self._record(cycle, taken.plan, text, standing)
        # 5 apply
        if outbox is not None:
            self._cache.assume(decided)
            outbox.send(cycle, self._decided_at)
        resting = self._may_rest(cycle) if outbox is not None else frozenset(cycle.waits)
        if shards is not None:
            shards.after(taken, cycle)
            resting -= shards.wanting
            self._look_at = _first(self._look_at, shards.wake_at(now))
        self._cache.let_rest(resting)
        # 6 record
        self.cycles += 1
        cycle = replace(cycle, seconds=self.stopwatch() - started)
        for listener in self.on_cycle:
            with self._cache.picture.problems.isolated("listener", listener.__qualname__):
                listener(cycle)
        # 7 report: many jobs may wait, so binds leave first
        if outbox is not None:
            waits_since = self.stopwatch()
            await outbox.all_sent(self._settings.sending)
            started += self.stopwatch() - waits_since
            outbox.report(cycle)
        self._seconds = self.stopwatch() - started
        # Skipped jobs were not asked: their last `wake_at` still holds.
        self._look_at = _first(self._look_at, decided.wake_at)
        return _first(self._look_at, None if outbox is None else outbox.due(now))

    async def _decide(self, snapshot: Snapshot, config: Config, now: float, standing: Standing | None) -> Step:
        def decide() -> Step:
            taken = decide_as(standing, snapshot, config, now)
            self._decided_at = time.monotonic()
            return taken

        if len(snapshot.jobs.active) - len(snapshot.resting) >= IN_A_THREAD:
            return await asyncio.to_thread(decide)
        return decide()

    async def _without_culprits(
        self, error: Exception, config: Config, now: float, standing: Standing | None
    ) -> Snapshot:
        """The snapshot without what made deciding fail. Raises the error if that cannot be found."""
        cluster = self._cache.cluster()
        logger.error("deciding failed, looking for the cause: %s: %s", type(error).__name__, error)

        def attempt(reduced: Cluster) -> int:
            plan = decide_as(standing, Snapshot(reduced), config, now).plan
            return len(plan.bind) + len(plan.nominate) + len(plan.admit) + len(plan.ungate)

        found = await asyncio.to_thread(self._cache.find_culprits, cluster, attempt)
        if found is None:
            raise error
        return self._cache.set_aside(found, error, now)

    def _may_rest(self, cycle: Cycle) -> frozenset[str]:
        """The waiting jobs that the next cycles may skip. If the plan itself may help some, triggers another cycle."""
        plan, waiting = cycle.plan, frozenset(cycle.waits)
        helped = self._cache.in_need_of_company(waiting) if plan.bind else frozenset()
        before = cycle.snapshot.cluster
        if plan.lets_go(before.elect, before.locks):
            helped = waiting
        if helped:
            self.trigger()
        return waiting - helped

    def _measured(self, config: Config) -> Config:
        if self._timed is None or self._timed[0] is not config:
            actions = (
                replace(o, registration=replace(o.registration, make=self._with_stopwatch(o))) for o in config.actions
            )
            self._timed = (config, replace(config, actions=tuple(actions)))
        return self._timed[1]

    def _with_stopwatch(self, option: ActionOption) -> Callable[[Any], Action]:
        """Makes an action that measures its duration, because the decision itself has no clock."""
        return lambda arguments: Timed(option.registration.make(arguments), option.name, self.on_action)

    def _record(self, cycle: Cycle, plan: Plan, text: str | None, standing: Standing | None) -> None:
        """Record a cycle with the plan that was decided before the brakes changed it."""
        if self._recorder is not None:
            frame = Frame(cycle.now, plan, resting=tuple(sorted(cycle.skipped)), config=text, standing=standing)
            if cycle.rebuilt or self._recorder.needs_all(cycle.now):
                frame = replace(frame, cluster=self._cache.cluster())
            else:
                frame = replace(frame, around=cycle.snapshot.cluster, changed=dict(cycle.changed))
            self._recorder.write(frame)


def _first(*moments: float | None) -> float | None:
    return min((moment for moment in moments if moment is not None), default=None)
