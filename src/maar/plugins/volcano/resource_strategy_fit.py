"""resource-strategy-fit: pack nodes by some resources, spread over them by others, and protect scarce devices.

Three parts, each with its own switch:

    resources      full nodes first or empty nodes first, for each resource; a pod's annotations may say otherwise
    sra            pods keep away from nodes with scarce resources that they do not need
    proportional   nodes keep CPU and memory free for each idle device, so that its next user finds them
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from maar.config.config import OpenArguments
from maar.model.codes import NODES, Code
from maar.model.fitting import count_columns
from maar.model.reasons import Refusal
from maar.model.resources import CPU, MEMORY, UNLIMITED, Floats, Ints
from maar.model.shapes import FillStrategy
from maar.plugins.support.fullness import Fullness, FullnessTerms, Term
from maar.session.hooks import Limit
from maar.session.register import Register
from maar.session.session import Session

NAME = "resource-strategy-fit"
KEPT = Code("KeptForDevices", NODES)
DEFAULT_WEIGHT = 10.0
"""The default of Volcano."""
PER_DEVICE = {CPU: 1000, MEMORY: 10**9}
"""The units of `resourceProportion`: cores, in milli, and gigabytes."""
MOST = 2.0**62
LARGEST = 1e6
"""Larger numbers count as this, so that no sum or product is infinite."""


class Resource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one resource counts. As in Volcano, a weight that is not positive counts as 1."""

    type: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    weight: float = 1.0


class Sra(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Scarce resources, separated by commas, with their weights. A negative weight counts as 1."""

    enable: bool = False
    resources: str = ""
    weight: float = 1.0
    weights: dict[str, float] = msgspec.field(name="resourceWeight", default_factory=dict)

    def of_resources(self) -> dict[str, float]:
        """The weight of each scarce resource."""
        given = {name: self.weights.get(name, 1.0) for name in listed(self.resources)}
        return {name: min(weight, LARGEST) if weight >= 0 else 1.0 for name, weight in given.items()}


class Proportional(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Devices, separated by commas, and how many cores and gigabytes each of them needs; a negative number is 1."""

    enable: bool = False
    resources: str = ""
    needs: dict[str, float] = msgspec.field(name="resourceProportion", default_factory=dict)

    def of_devices(self) -> dict[str, dict[str, int]]:
        """For each device, what is kept free for an idle one."""
        return {
            device: {name: round(self._need(f"{device}.{name}") * unit) for name, unit in PER_DEVICE.items()}
            for device in listed(self.resources)
        }

    def _need(self, key: str) -> float:
        given = self.needs.get(key, 1.0)
        return min(given, LARGEST) if given >= 0 else 1.0


class Arguments(OpenArguments, frozen=True, forbid_unknown_fields=True):
    """Volcano's arguments. As in Volcano, a negative weight of the plugin counts as 10; 0 switches its score off."""

    weight: float = msgspec.field(name="resourceStrategyFitWeight", default=DEFAULT_WEIGHT)
    resources: dict[str, Resource] = msgspec.field(default_factory=dict)
    sra: Sra = Sra()
    proportional: Proportional = Proportional()

    @classmethod
    def normalise(cls, raw: dict[str, object]) -> dict[str, object]:
        """Check the nested arguments, so that an error names the place."""
        kinds: dict[str, Any] = {"resources": dict[str, Resource], "sra": Sra, "proportional": Proportional}
        for key, kind in kinds.items():
            if key in raw:
                try:
                    msgspec.convert(raw[key], kind, strict=False)
                except msgspec.ValidationError as error:
                    raise ValueError(f"{key}: {error}") from None
        named = raw.get("resources")
        for name in named if isinstance(named, dict) else ():
            if "*" in name[:-1] or name == "*":
                raise ValueError(f"resources: `{name}`: expected a name, or a beginning of names like `nvidia.com/*`")
        return raw

    def strategies(self) -> Mapping[str, Resource]:
        """How resources count, by name or by the beginning of their names."""
        return self.resources or {CPU: Resource(), MEMORY: Resource()}


class KeptForDevices(NamedTuple):
    """What nodes keep free for each idle device."""

    device: int
    cpu: int
    memory: int


class ResourceStrategyFit:
    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._weight = min(arguments.weight, LARGEST) if arguments.weight >= 0 else DEFAULT_WEIGHT
        self._terms: dict[int, FullnessTerms] = {}
        self._scarce: dict[int, Floats] = {}

    def open(self, session: Session, on: Register) -> None:
        """Register the scores and the limit that the arguments switch on."""
        self._session = session
        self._fullness = Fullness(session)
        arguments = self._arguments
        if self._weight > 0:
            on.score(self._fit)
        if arguments.sra.enable and arguments.sra.weight > 0:
            on.score(self._keep_away)
        if arguments.proportional.enable:
            index = session.snapshot.axes.index
            self._kept = [
                KeptForDevices(index[device], needs[CPU], needs[MEMORY])
                for device, needs in arguments.proportional.of_devices().items()
                if device in index
            ]
            on.limit(self._limit)

    # -- full or empty nodes first

    def _fit(self, shape: int, rows: Ints | slice) -> Floats:
        terms = self._terms.get(shape)
        if terms is None:
            terms = self._terms[shape] = self._fullness.terms(self._terms_of(shape))
        return self._fullness.points(terms, rows)

    def _terms_of(self, shape: int) -> list[Term]:
        shapes, axes = self._session.snapshot.shapes, self._session.snapshot.axes
        own, request = shapes.shapes[shape].strategy, shapes.requests[shape]
        counted: list[tuple[int, Resource]] = []
        for dim in np.flatnonzero(request).tolist():
            found = strategy_of(axes.names[dim], self._arguments.strategies(), own)
            if found is not None:
                counted.append((dim, found))
        total = sum(positive(resource.weight) for _, resource in counted)
        terms = []
        for dim, resource in counted:
            points = 100.0 * self._weight * positive(resource.weight) / total
            full, empty = (points, 0.0) if resource.type == "MostAllocated" else (0.0, points)
            terms.append(Term(dim, int(request[dim]), full, empty))
        return terms

    # -- scarce resources

    def _keep_away(self, shape: int, rows: Ints | slice) -> Floats:
        scores = self._scarce.get(shape)
        if scores is None:
            request = self._session.snapshot.shapes.requests[shape]
            scores = self._scarce[shape] = self._scarce_of(request)
        return scores[rows]

    def _scarce_of(self, request: Ints) -> Floats:
        snapshot, sra = self._session.snapshot, self._arguments.sra
        most = min(sra.weight, LARGEST)
        return plain_first(snapshot.nodes.allocatable, request, sra.of_resources(), snapshot.axes.index, most)

    # -- room for idle devices

    def _limit(self, shape: int, later: bool) -> Limit | None:
        view, axes = self._session.view(shape, later), self._session.snapshot.axes
        if any(view.request[kept.device] > 0 for kept in self._kept):
            return None
        room: Ints = np.full(len(self._session.snapshot.nodes), UNLIMITED, dtype=np.int64)
        every = slice(None)
        for name in (CPU, MEMORY):
            dim = axes.index[name]
            request = int(view.request[dim])
            if request > 0:
                free = view.free(every, dim)
                for kept in self._kept:
                    each = kept.cpu if name == CPU else kept.memory
                    room = np.minimum(room, room_beside(free, view.free(every, kept.device), each, request))
        if not (room < UNLIMITED).any():
            return None
        names = ", ".join(axes.names[kept.device] for kept in self._kept)
        cause = Refusal(NAME, KEPT, f"keep their free cpu and memory for idle {names}", room == 0)
        return Limit(room, coupled=False, causes=(cause,))


def listed(names: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def positive(weight: float) -> float:
    """The weight; one that is not positive counts as 1."""
    return min(weight, LARGEST) if weight > 0 else 1.0


def strategy_of(name: str, configured: Mapping[str, Resource], own: FillStrategy | None) -> Resource | None:
    """How a resource counts for a pod; `None` if it does not. An exact name wins, then the longest beginning."""
    found = configured.get(name)
    if found is None:
        fitting = [key for key in configured if key.endswith("*") and name.startswith(key[:-1])]
        found = configured[max(fitting, key=len)] if fitting else None
    if own is None:
        return found
    if own.weights:
        weight = dict(own.weights).get(name)
        if weight is None:
            return None
        found = Resource("LeastAllocated" if found is None else found.type, weight)
    if found is None or own.pack is None:
        return found
    return Resource("MostAllocated" if own.pack else "LeastAllocated", found.weight)


def plain_first(
    allocatable: Ints, request: Ints, weights: Mapping[str, float], index: Mapping[str, int], most: float
) -> Floats:
    """100 times `most` for nodes without scarce resources, less for each of them, 0 where the pod cannot run."""
    total = sum(weights.values())
    has = np.zeros(len(allocatable), dtype=np.float64)
    for name, weight in weights.items():
        if name in index:
            has += weight * (allocatable[:, index[name]] > 0)
    able = (allocatable[:, request > 0] > 0).all(axis=1)
    return np.where(able, 100.0 * most * (1.0 - has / total), 0.0) if total > 0 else has * 0.0


def room_beside(free: Ints, idle: Ints, each: int, request: int) -> Ints:
    """How many pods with this request fit beside what is kept for idle devices."""
    kept = np.minimum(np.maximum(idle, 0) * float(each), MOST).astype(np.int64)
    return np.where(idle > 0, count_columns(len(free), [(free - kept, request)]), UNLIMITED)
