"""rescheduling: jobs leave busy nodes if nodes with little to do have room for them.

It names victims for the action `shuffle`, in rounds (Volcano's strategy `lowNodeUtilization`):

    1 compare   the real load of nodes with two thresholds: some are busy, some have little to do, the rest stays out
    2 choose    on each busy node the least important jobs, as whole gangs or surplus, until its load is low enough
    3 prove     each of them fits on the nodes with little to do, without making one of them busy; otherwise it stays

All proofs of a round build on each other and are then undone; the room that they found is reserved for the pods that
are created again. Nodes without recent figures are neither busy nor free.
Until a busy node has other figures, pods use it last: otherwise those that left would come back at once.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import numpy as np

from maar.config.config import OpenArguments
from maar.model.durations import parse_duration
from maar.model.jobs import Job
from maar.model.plan import Cause
from maar.model.resources import CPU, MEMORY, UNLIMITED, Floats, Ints, Mask
from maar.model.tasks import Status
from maar.session.eviction.departures import unit_for
from maar.session.eviction.protection import unprotected
from maar.session.hooks import Departure
from maar.session.placement import Group, Terms, both, domains_of, place_tasks
from maar.session.register import Register
from maar.session.session import Session

NAME = "rescheduling"
BUSY = -1e6
"""The score of busy nodes: lower than all other scores together, and less than what nominated room adds."""
ROUNDING = 1e-9
"""Tolerance: a node that then is exactly at its target takes the task."""

Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]


class LoadThresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Percentages of what a node has. The numbers of pods have no effect, as in Volcano."""

    cpu: Percent = 100.0
    memory: Percent = 100.0
    pods: Percent = 100.0
    pod: Percent = 100.0


class LowNodeUtilization(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """Nodes have little to do below all `thresholds`, and are busy above one of `targetThresholds`.

    The other parameters have no effect, as in Volcano: system pods always stay, and victims always fit elsewhere.
    """

    thresholds: LoadThresholds = LoadThresholds()
    target_thresholds: LoadThresholds = LoadThresholds()
    threshold_priority_class_name: str = ""
    threshold_priority: int = 0
    node_fit: bool = True
    number_of_nodes: int = 0


class VictimStrategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A way to choose victims. There is one."""

    name: Literal["lowNodeUtilization"]
    params: LowNodeUtilization = LowNodeUtilization()


class Arguments(OpenArguments, frozen=True, forbid_unknown_fields=True):
    """Durations in seconds: the least time between two rounds, and the greatest age of figures."""

    interval: float = 300.0
    metrics_period: float = msgspec.field(name="metricsPeriod", default=300.0)
    strategies: tuple[VictimStrategy, ...] = ()
    reserve: float = 120.0
    """How long the room that was found for pods is reserved until they are created again; 0: not at all."""

    @classmethod
    def normalise(cls, raw: dict[str, object]) -> dict[str, object]:
        """Read durations, and check the strategies, so that an error names the place."""
        made = dict(raw)
        for key in {"interval", "metricsPeriod", "reserve"} & made.keys():
            made[key] = _seconds(key, made[key], least=key == "reserve")
        listed = made.get("strategies")
        if listed is not None:
            try:
                msgspec.convert(listed, tuple[VictimStrategy, ...], strict=False)
            except msgspec.ValidationError as error:
                raise ValueError(f"strategies: {error}") from None
        return made

    @property
    def limits(self) -> LowNodeUtilization:
        """The parameters of the strategy: of the last one, if it is listed twice, as in Volcano."""
        return self.strategies[-1].params if self.strategies else LowNodeUtilization()


def _seconds(key: str, value: object, least: bool = False) -> float:
    """A duration; it may be zero if that is the `least` of its values."""
    try:
        seconds = parse_duration(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = -1.0
    if seconds < 0 or not (seconds or least):
        raise ValueError(f"{key}: expected a duration such as `5m`, got `{value}`")
    return seconds


class Rescheduling:
    def __init__(self, arguments: Arguments) -> None:
        self._interval, self._oldest, self._reserve = arguments.interval, arguments.metrics_period, arguments.reserve
        limits = arguments.limits
        self._low = np.array([limits.thresholds.cpu, limits.thresholds.memory])
        self._target = np.array([limits.target_thresholds.cpu, limits.target_thresholds.memory])

    def open(self, session: Session, on: Register) -> None:
        on.victim_tasks(self._round)
        self._session = session
        if not session.snapshot.cluster.loads:
            return
        load = self._load = MovedLoad(session)
        fresh = session.snapshot.loads.fresh(session.now, self._oldest)
        self._free: Mask = fresh & ~session.snapshot.nodes.unschedulable & (load.percent < self._low).all(axis=1)
        """Nodes with little to do."""
        self._busy: Mask = fresh & ~self._free & (load.percent > self._target).any(axis=1)
        if self._busy.any():
            on.score(lambda _, rows: np.where(self._busy[rows], BUSY, 0.0))

    def _round(self) -> list[Departure]:
        """The jobs that leave now; none until the next round is due and busy nodes have new figures."""
        session = self._session
        if not session.snapshot.cluster.loads:
            return []
        due = session.next_round(NAME, self._interval)
        session.wake(due if due > session.now else session.now + self._interval)  # new figures alone cause no cycle
        if due > session.now:
            return []
        since = session.snapshot.loads.at > session.last_round(NAME)
        free, busy = self._free & since, self._busy & since
        if not free.any() or not busy.any():
            return []
        session.begin_round(NAME)  # also if no job can leave: the search is not repeated in every cycle
        with session.statement():  # not committed: it only shows that victims fit elsewhere
            return self._departures(free, busy)

    def _departures(self, free: Mask, busy: Mask) -> list[Departure]:
        state, table, load = self._session.state, self._session.snapshot.tasks, self._load
        there = np.flatnonzero((state.status == Status.BOUND) & (state.node >= 0))
        there = there[busy[state.node[there]]]
        found: list[Departure] = []
        hopeless: set[tuple[object, ...]] = set()  # what does not fit elsewhere: shapes, queue and usable nodes
        for row in most_loaded_first(load.percent, busy):
            for task in self._least_important_first(there[state.node[there] == row]):
                over = load.current(row) >= self._target
                if not over.any():
                    break
                helps = load.requests[table.shape[task]][over].any()
                if not helps or state.status[task] != Status.BOUND:
                    continue
                unit, before = self._movable(task), len(state.reserved.get(int(table.job[task]), ()))
                if unit and self._moves(unit, free, hopeless):
                    # A single pod finds room more easily than a gang does.
                    room = state.reserved[int(table.job[task])][before:] if len(unit) > 1 else ()
                    until = self._session.now + self._reserve
                    found.append(Departure(unit, self._why(task, row, over), room, until))
        return found

    def _least_important_first(self, tasks: Ints) -> list[int]:
        snapshot = self._session.snapshot
        table, best_effort = snapshot.tasks, snapshot.shapes.best_effort

        def rank(t: int) -> tuple[int, bool, str, int, int]:
            task = table.tasks[t]
            return task.priority, not best_effort[table.shape[t]], task.job, -task.index, t

        return sorted(tasks.tolist(), key=rank)

    def _movable(self, task: int) -> tuple[int, ...]:
        """The tasks that leave with a task; none if they may not, or if nothing would create them again."""
        session, table = self._session, self._session.snapshot.tasks
        if session.job(int(table.job[task])).elastic is not None:
            return ()  # The action `resize` decides about its workers.
        unit = unit_for(session, [task])
        if not unit or not all(table.tasks[t].controlled for t in unit):
            return ()
        rows = np.array(unit)
        ends = table.started[rows] + np.array([table.tasks[t].cooldown for t in unit])
        young = (ends > session.now) & ~unprotected(session, rows)
        if young.any():
            session.wake(float(ends[young].max()))
        return () if young.any() else unit

    def _moves(self, unit: tuple[int, ...], free: Mask, hopeless: set[tuple[object, ...]]) -> bool:
        """Whether tasks that leave together fit on free nodes; if so they leave, and their new room is kept."""
        session, table = self._session, self._session.snapshot.tasks
        job = session.job(int(table.job[unit[0]]))
        usable = both(free, session.open_to(job))
        assert usable is not None
        asks = (tuple(sorted(table.shape[list(unit)].tolist())), job.queue, job.closeness, usable.tobytes())
        if asks in hopeless:
            return False
        with session.statement() as statement:
            for task in unit:
                session.evict(task, job, "", Cause.SHUFFLED)
            if self._keeps_room(job, unit, usable):
                statement.commit()
                return True
        hopeless.add(asks)
        return False

    def _keeps_room(self, job: Job, unit: tuple[int, ...], usable: Mask) -> bool:
        session, table = self._session, self._session.snapshot.tasks
        roles = session.snapshot.jobs.task_role
        kinds: dict[tuple[int, int], list[int]] = {}
        for task in unit:
            kinds.setdefault((int(roles[task]), int(table.shape[task])), []).append(task)
        groups = [Group(role, shape, np.array(tasks)) for (role, shape), tasks in kinds.items()]
        for domain in domains_of(session, job):
            terms = Terms(later=True, within=both(usable, domain), reserve=True, room=self._room)
            with session.statement() as statement:
                if all(
                    place_tasks(session, job, group, len(group.tasks), terms) == len(group.tasks) for group in groups
                ):
                    statement.commit()
                    return True
        return False

    def _room(self, shape: int) -> Ints:
        """How many more tasks of a shape each node takes before it reaches a target."""
        return self._load.room(shape, self._target)

    def _why(self, task: int, row: int, over: Mask) -> str:
        snapshot, now = self._session.snapshot, self._load.percent[row]
        job, name = snapshot.tasks.tasks[task].job, snapshot.nodes.names[row]
        parts = [
            f"{resource} {now[i]:.0f} % in use, target {self._target[i]:g} %"
            for i, resource in enumerate((CPU, MEMORY))
            if over[i]
        ]
        return f"moved: pods of `{job}` leave busy node `{name}`: {', '.join(parts)}"


class MovedLoad:
    """The load of nodes in percent, CPU and memory, with what the session has moved so far."""

    def __init__(self, session: Session) -> None:
        loads, nodes, index = session.snapshot.loads, session.snapshot.nodes, session.snapshot.axes.index
        self._taken = session.capacity.taken
        self._dims = [index[CPU], index[MEMORY]]
        self.percent: Floats = 100.0 * np.stack([loads.cpu, loads.memory], axis=1)
        """As measured; NaN if unknown."""
        known = np.stack([loads.cpu_capacity, loads.memory_capacity], axis=1)
        self._capacity: Floats = np.maximum(np.where(known > 0, known, nodes.allocatable[:, self._dims]), 1.0)
        self.requests: Ints = session.snapshot.shapes.requests[:, self._dims]
        self._before = self._moved(slice(None)).copy()

    def _moved(self, rows: int | slice) -> Ints:
        return np.asarray(self._taken(rows)[..., self._dims])

    def current(self, row: int) -> Floats:
        """The load of a node after what was moved in this session."""
        moved = self._moved(row) - self._before[row]
        return np.asarray(self.percent[row] + 100.0 * moved / self._capacity[row])

    def room(self, shape: int, target: Floats) -> Ints:
        """How many more tasks of a shape each node takes before it reaches the target; 0 if its load is unknown."""
        left = (target - self.percent) / 100.0 * self._capacity - (self._moved(slice(None)) - self._before)
        asks = self.requests[shape]
        counts = np.full(len(left), float(UNLIMITED // 2))
        for i in np.flatnonzero(asks).tolist():
            counts = np.minimum(counts, np.floor(left[:, i] / asks[i] + ROUNDING))
        return np.asarray(np.maximum(np.nan_to_num(counts, nan=0.0), 0.0), dtype=np.int64)


def most_loaded_first(percent: Floats, chosen: Mask) -> list[int]:
    """The chosen nodes by the sum of their loads, the greatest first; then by row."""
    rows = np.flatnonzero(chosen)
    total = np.nan_to_num(percent[rows]).sum(axis=1)
    ordered: list[int] = rows[np.argsort(-total, kind="stable")].tolist()
    return ordered
