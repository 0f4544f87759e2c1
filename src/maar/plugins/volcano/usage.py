"""usage: keep pods off nodes that are really busy, and prefer nodes with little real load.

The figures come with the snapshot (`maar.model.loads`). A node without fresh figures is neither refused nor preferred.
Pods that have just started are not in the figures yet, so their load is estimated from what they request; otherwise all
new pods would go to the node that was idle a minute ago. Pods are placed one by one for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from maar.config.config import OpenArguments
from maar.model.codes import NODES, Code
from maar.model.loads import MAX_AGE
from maar.model.reasons import Refusal
from maar.model.resources import CPU, MEMORY, Floats, Ints, Mask, QuantityError, units
from maar.model.shapes import ShapeTable
from maar.model.tasks import Status, among
from maar.session.register import Register
from maar.session.session import Session

NAME = "usage"

BUSY = Code("CpuLoad", NODES)
FULL = Code("MemoryLoad", NODES)
CODES = (BUSY, FULL)
MOST = 2**44
"""The estimate of one pod is at most this, so that sums fit in int64: 16 TiB of memory."""

Weight = Annotated[float, Meta(ge=0, le=1e6)]
Percent = Annotated[float, Meta(ge=0, le=100)]
Ratio = Annotated[float, Meta(ge=0, le=1)]


class UsageThresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Real use in percent above which a node takes no more pods."""

    cpu: Percent = 80.0
    memory: Percent = msgspec.field(name="mem", default=80.0)


class Estimator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the load of pods is estimated that are not in the figures yet."""

    request: Ratio = msgspec.field(name="request_ratio", default=0.7)
    """Part of what a pod requests."""
    burst: Ratio = msgspec.field(name="burst_ratio", default=0.0)
    """Part of what its limit is above that."""
    risk_threshold: Ratio = 0.6
    """Load from which on estimates of a node are multiplied by the factor."""
    risk_factor: Annotated[float, Meta(ge=1, le=1e6)] = 1.2
    be_cpu: str | float = "250m"
    """The estimate for a pod that requests nothing."""
    be_mem: str | float = "200Mi"

    def best_effort(self) -> tuple[int, int]:
        return units(CPU, self.be_cpu, up=True), units(MEMORY, self.be_mem, up=True)


class Arguments(OpenArguments, frozen=True, forbid_unknown_fields=True):
    """Volcano's arguments. A weight of 0 switches a part of the score off."""

    weight: Weight = msgspec.field(name="usage.weight", default=5.0)
    cpu: Weight = msgspec.field(name="cpu.weight", default=1.0)
    memory: Weight = msgspec.field(name="memory.weight", default=1.0)
    thresholds: UsageThresholds = UsageThresholds()
    estimator: Estimator = Estimator()

    @classmethod
    def normalise(cls, raw: dict[str, object]) -> dict[str, object]:
        """Check the nested arguments, so that an error names the place."""
        kinds: dict[str, Any] = {"thresholds": UsageThresholds, "estimator": Estimator}
        for key, kind in kinds.items():
            if key not in raw:
                continue
            try:
                made = msgspec.convert(raw[key], kind, strict=False)
            except msgspec.ValidationError as error:
                raise ValueError(f"{key}: {error}") from None
            if isinstance(made, Estimator):
                _check_quantities(key, made)
        return raw


def _check_quantities(key: str, estimator: Estimator) -> None:
    for name, value in (("be_cpu", estimator.be_cpu), ("be_mem", estimator.be_mem)):
        try:
            amount = units(CPU, value, up=True)
        except QuantityError as error:
            raise ValueError(f"{key}: {name}: {error}") from None
        if amount < 0:
            raise ValueError(f"{key}: {name}: expected an amount of at least 0, got `{value}`")


class Usage:
    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def open(self, session: Session, on: Register) -> None:
        """Register nothing if no figures are fresh."""
        if not session.snapshot.cluster.loads:
            return
        loads, nodes, arguments = session.snapshot.loads, session.snapshot.nodes, self._arguments
        fresh = loads.fresh(session.now)
        if not fresh.any():
            return
        self._session = session
        self._refusals = list(self._refused(fresh))
        on.predicate(self._refuse)
        if arguments.weight > 0 and arguments.cpu + arguments.memory > 0:
            dims = [session.snapshot.axes.index[name] for name in (CPU, MEMORY)]
            stated = np.stack((loads.cpu_capacity, loads.memory_capacity), axis=1)
            self._capacity: Floats = np.maximum(np.where(stated > 0, stated, nodes.allocatable[:, dims]), 1.0)
            self._real: Floats = np.stack((loads.cpu, loads.memory), axis=1)
            self._weights: Floats = np.array((arguments.cpu, arguments.memory))
            needed = np.isnan(self._real) & (self._weights > 0)
            self._known: Mask = fresh & ~needed.any(axis=1)
            self._real = np.nan_to_num(self._real)
            self._points: Floats | None = None
            self._cursor = session.state.cursor
            on.score(self._score)
            on.one_by_one(len(nodes))

    # -- the filter

    def _refused(self, fresh: Mask) -> Iterable[Refusal]:
        loads, limits = self._session.snapshot.loads, self._arguments.thresholds
        by_cpu = fresh & (loads.cpu * 100.0 > limits.cpu)
        by_memory = fresh & (loads.memory * 100.0 > limits.memory) & ~by_cpu
        if by_cpu.any():
            yield Refusal(NAME, BUSY, f"above {limits.cpu:g} % CPU use", by_cpu)
        if by_memory.any():
            yield Refusal(NAME, FULL, f"above {limits.memory:g} % memory use", by_memory)

    def _refuse(self, shape: int) -> Iterable[Refusal]:
        """The busy nodes. They are open again when their figures are too old, even if no new ones come."""
        for refusal in self._refusals:
            self._session.wake(float(self._session.snapshot.loads.at[refusal.nodes].min()) + MAX_AGE + 1.0)
        return self._refusals

    # -- the score

    def _score(self, shape: int, rows: Ints | slice) -> Floats:
        """100 for an idle node, 0 for a busy one and for one without figures, times the weight."""
        state = self._session.state
        changed, self._cursor = state.touched_since(self._cursor)
        if self._points is None:
            self._points = self._of(np.arange(len(self._known)))
        elif changed is not None:
            self._points[changed] = self._of(changed)
        return self._points[rows]

    def _of(self, rows: Ints) -> Floats:
        """The points of some nodes, with the estimates of pods that are not in their figures yet."""
        real, capacity = self._real[rows], self._capacity[rows]
        full = with_estimates(real, self._estimates(rows, real, capacity), capacity)
        idle = (1.0 - mean(full, self._weights)) * (100.0 * self._arguments.weight)
        return np.where(self._known[rows], idle, 0.0)

    def _estimates(self, rows: Ints, real: Floats, capacity: Floats) -> Ints:
        """The estimated CPU and memory of pods on each of these nodes that are not in its figures yet."""
        session, state = self._session, self._session.state
        place = np.full(len(self._known) + 1, -1, dtype=np.int64)  # the last entry is for tasks without a node
        place[rows] = np.arange(len(rows))
        unseen = session.memo.fixed(NAME, "unseen", self._unseen) & (place[state.node] >= 0)
        chosen = np.flatnonzero(unseen)
        chosen = chosen[among((Status.BOUND, Status.NOMINATED)).take(state.status[chosen])]
        of = place[state.node[chosen]]
        order = np.argsort(of, kind="stable")
        usual, risky = session.memo.fixed(NAME, "shapes", self._of_shapes)
        shapes = session.snapshot.tasks.shape[chosen[order]]
        threshold = self._arguments.estimator.risk_threshold
        return on_nodes(of[order], usual[shapes], risky[shapes], real, capacity, self._weights, threshold)

    def _unseen(self) -> Mask:
        """Tasks that the figures of their node do not contain; true for all that have no node yet."""
        session, tasks = self._session, self._session.snapshot.tasks
        at = session.snapshot.loads.at[np.maximum(tasks.node, 0)]
        young = tasks.unstarted | (tasks.started + session.config.metrics.interval > at)
        return np.asarray(young | (tasks.status != Status.BOUND))

    def _of_shapes(self) -> tuple[Ints, Ints]:
        estimator, snapshot = self._arguments.estimator, self._session.snapshot
        dims = [snapshot.axes.index[name] for name in (CPU, MEMORY)]
        usual = estimates(snapshot.shapes, dims, estimator, 1.0)
        return usual, estimates(snapshot.shapes, dims, estimator, estimator.risk_factor)


def estimates(shapes: ShapeTable, dims: list[int], estimator: Estimator, factor: float) -> Ints:
    """The estimated CPU and memory of a pod of each shape: never more than its limit, or without one its request."""
    requests = shapes.requests[:, dims].astype(np.float64)
    limits = requests.copy()
    for row, shape in enumerate(shapes.shapes):
        for name, amount in shape.limits:
            limits[row, (CPU, MEMORY).index(name)] = amount
    limits = np.maximum(limits, requests)
    found = (requests * estimator.request + (limits - requests) * estimator.burst) * factor
    found = np.minimum(found, limits)
    found[shapes.best_effort] = np.array(estimator.best_effort()) * factor
    return np.rint(np.minimum(found, MOST)).astype(np.int64)


def on_nodes(
    rows: Ints, usual: Ints, risky: Ints, real: Floats, capacity: Floats, weights: Floats, threshold: float
) -> Ints:
    """The sum of estimates on each node; `rows` are sorted. The pods of a node are counted one after the other.

    A pod has its risky estimate if the load before it has reached the threshold. Estimates are not negative, so from
    there on all pods of the node have.
    """
    total = np.zeros(real.shape, dtype=np.int64)
    if len(rows):
        before = np.cumsum(usual, axis=0) - usual
        first = np.concatenate(([True], rows[1:] != rows[:-1]))
        before -= before[np.flatnonzero(first)[np.cumsum(first) - 1]]
        load = mean(with_estimates(real[rows], before, capacity[rows]), weights)
        np.add.at(total, rows, np.where((load >= threshold)[:, np.newaxis], risky, usual))
    return total


def with_estimates(real: Floats, estimated: Ints, capacity: Floats) -> Floats:
    return np.clip(real + estimated / capacity, 0.0, 1.0)


def mean(full: Floats, weights: Floats) -> Floats:
    """The weighted mean of CPU and memory."""
    return np.asarray((full[:, 0] * weights[0] + full[:, 1] * weights[1]) / (weights[0] + weights[1]))
