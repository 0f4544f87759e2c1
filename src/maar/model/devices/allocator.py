"""The exact allocator: devices of one node for some claims, by a search in the order of Kubernetes' allocator.

Claims, their requests and the alternatives of a request are tried in their order, devices in the order of the node's
pools, depth first. The first full solution wins; so for the same pools, ledger and claims the answer is that of
kube-scheduler. The search tries everything, so it is bounded in steps and in devices that it tries, and a search that
was cut short is its own outcome: it proves nothing. Which devices the expressions match is an input.

The search is a generator for each level, run by one loop: no number of claims can exhaust Python's stack.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from enum import Enum

import msgspec

from maar.model.devices.capacity import fits
from maar.model.devices.claim import MOST_DEVICES, AllocatedDevice, Allocation, AllocationMode
from maar.model.devices.constraints import Chosen
from maar.model.devices.device import Device, DeviceId, NodeNames
from maar.model.devices.ledger import Counters, DeviceLedger, consume, count
from maar.model.devices.pools import DevicePool
from maar.model.devices.results import ClaimRefused, config, usable_on
from maar.model.devices.wanted import Alternative, Features, Problem, There, Wanted

__all__ = ["Features", "Outcome", "Problem", "Searched", "allocate"]


class Outcome(Enum):
    ALLOCATED = "allocated"
    NO_FIT = "no fit"
    REFUSED = "refused"
    """The claims, or the devices that the search met, cannot be understood."""
    CANCELLED = "cancelled"
    """Out of steps: nothing is known."""


class Searched(msgspec.Struct, frozen=True):
    """The end of a search."""

    outcome: Outcome
    steps: int
    allocations: tuple[Allocation, ...] = ()
    """One for each claim, in the order of the claims."""
    why: str = ""


def allocate(
    problem: Problem, node: NodeNames, pools: Sequence[DevicePool], ledger: DeviceLedger, *, limit: int
) -> Searched:
    """Devices of a node for all claims, or why there are none.

    `limit`: the steps that the search may take, counted as Kubernetes does; it may try a few devices for each of them.
    """
    steps = StepLimit(limit)
    try:
        wanted = Wanted(problem, node, pools, ledger)
        search = _Search(problem, wanted, ledger, steps)
        if _run(search.claim(0)) is _End.DONE:
            return Searched(Outcome.ALLOCATED, steps.taken, search.allocations(node))
    except ClaimRefused as refused:
        return Searched(Outcome.REFUSED, steps.taken, why=str(refused))
    except _OutOfSteps:
        return Searched(Outcome.CANCELLED, steps.taken, why=f"gave up after {limit} steps")
    invalid = next((f"pool `{pool.id}` is invalid: {pool.invalid}" for pool in pools if pool.invalid), "")
    return Searched(Outcome.NO_FIT, steps.taken, why=invalid)


class _OutOfSteps(Exception):
    pass


TRIES = 16
"""Devices that a search may try for each step of its limit; tuned by hand. A step alone can try thousands in vain."""


class StepLimit:
    """Counts the steps of a search, and the devices that it tries."""

    __slots__ = ("_limit", "_tries", "taken")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tries = limit * TRIES
        self.taken = 0

    def attempt(self) -> None:
        if self._tries <= 0:
            raise _OutOfSteps
        self._tries -= 1

    def step(self) -> None:
        if self.taken >= self._limit:
            raise _OutOfSteps
        self.taken += 1


class _End(Enum):
    """How one level of the search ended."""

    DONE = 1
    NONE = 2
    TOO_MANY = 3
    """The claim would get more devices than it can hold, whatever devices are chosen."""


_Level = Generator["_Level", _End, _End]


class _Undo(msgspec.Struct, frozen=True):
    """What choosing a device changed."""

    at: int
    device: Device
    consumed: Mapping[str, int]
    shared: bool
    counts: bool
    """Whether it consumes counters: the first share of a device does so for all."""
    constraints: tuple[Chosen, ...]


class _Search:
    def __init__(self, problem: Problem, wanted: Wanted, ledger: DeviceLedger, steps: StepLimit) -> None:
        self._claims = problem.claims
        self._classes = problem.classes
        self._features = problem.features
        self._wanted = wanted
        self._ledger = ledger
        self._step = steps.step
        self._attempt = steps.attempt
        self._constraints = [[Chosen(constraint) for constraint in claim.constraints] for claim in problem.claims]
        self._chosen: list[list[tuple[There, AllocatedDevice]]] = [[] for _ in problem.claims]
        self._picked: dict[tuple[int, int], Alternative] = {}
        self._taken: dict[DeviceId, list[int]] = {}
        """The claims that have a whole device."""
        self._shares: dict[DeviceId, int] = {}
        self._used: dict[tuple[DeviceId, str], int] = {}
        self._counters: Counters = {}

    def claim(self, at: int) -> _Level:
        """All claims from this one on."""
        if at >= len(self._claims):
            self._step()
            return _End.DONE
        end = yield self._request(at, 0)
        # Too many devices for this claim is not the end: another choice for an earlier claim may leave it an
        # alternative with fewer.
        return _End.NONE if end is _End.TOO_MANY else end

    def _request(self, at: int, number: int) -> _Level:
        """All requests of a claim from this one on, then the other claims."""
        self._step()
        if number >= len(self._wanted.alternatives[at]):
            return (yield self.claim(at + 1))
        alternatives = self._wanted.alternatives[at][number]
        if not alternatives[0].request.first_available:
            self._picked[at, number] = alternatives[0]
            return (yield self._devices(at, number, 0, 0))
        end = _End.TOO_MANY
        for one in alternatives:
            self._step()
            self._picked[at, number] = one
            found = yield self._devices(at, number, 0, 0)
            if found is _End.DONE:
                return found
            if found is _End.NONE:
                end = found
        return end

    def _devices(self, at: int, number: int, already: int, start: int) -> _Level:
        """The devices that a request still needs, then the other requests. `start`: the first candidate to try."""
        one = self._picked[at, number]
        if already:
            self._step()
        wants_all = one.needs.mode is AllocationMode.ALL
        if wants_all and not one.devices:
            return _End.NONE
        if already >= one.count:
            return (yield self._request(at, number + 1))
        if len(self._chosen[at]) + one.count - already > MOST_DEVICES:
            return _End.TOO_MANY
        if wants_all:
            undo = self._take(at, one, one.devices[already])
            if undo is None:
                return _End.NONE
            end = yield self._devices(at, number, already + 1, 0)
            if end is not _End.DONE:
                self._undo(undo)
            return end
        # Devices are chosen in their order: other orders of the same devices are the same solution.
        following = start
        while (candidate := self._wanted.candidate(one, following)) is not None:
            following += 1
            if isinstance(candidate, str):
                raise ClaimRefused(candidate)
            undo = self._take(at, one, candidate)
            if undo is None:
                continue
            end = yield self._devices(at, number, already + 1, following)
            if end is _End.DONE:
                return end
            self._undo(undo)
            if end is _End.TOO_MANY:
                return end
        return _End.NONE

    def _take(self, at: int, one: Alternative, there: There) -> _Undo | None:
        """Choose a device if it is free and goes with the others."""
        self._attempt()
        device, features = there.device, self._features
        shared = device.shared and features.consumable_capacity
        if not self._is_free(at, one, device, shared):
            return None
        consumed = self._wanted.consumption(one, device)
        if consumed is None or not self._has_room(device, consumed):
            return None
        if features.taints and device.keeps_off(one.needs.tolerations) is not None:
            return None
        if device.consumes and not features.partitions:
            return None
        in_use = shared and (device.id in self._shares or self._ledger.is_shared(device.id))
        counts = bool(device.consumes) and not in_use
        if counts and not self._has_counters(there):
            return None
        constraints = self._constrain(at, one, device)
        if constraints is None:
            return None
        conditions = features.binding_conditions
        result = AllocatedDevice(
            request=one.name,
            device=device.id,
            admin=bool(one.needs.admin),
            tolerations=one.needs.tolerations,
            binding_conditions=device.binding_conditions if conditions else (),
            binding_failure_conditions=device.binding_failure_conditions if conditions else (),
            share=shared,
            consumed=consumed if shared else {},
        )
        undo = _Undo(at, device, consumed, shared, counts, constraints)
        self._chosen[at].append((there, result))
        self._change(undo, 1)
        return undo

    def _undo(self, undo: _Undo) -> None:
        self._chosen[undo.at].pop()
        self._change(undo, -1)
        for constraint in undo.constraints:
            constraint.remove()

    def _change(self, change: _Undo, sign: int) -> None:
        device = change.device
        if change.shared:
            count(self._shares, device.id, sign)
            for name, amount in change.consumed.items():
                count(self._used, (device.id, name), sign * amount)
        elif sign > 0:
            self._taken.setdefault(device.id, []).append(change.at)
        else:
            self._taken[device.id].remove(change.at)
        if change.counts:
            consume(self._counters, device, sign)

    def _is_free(self, at: int, one: Alternative, device: Device, shared: bool) -> bool:
        holders = self._taken.get(device.id, ())
        if one.needs.admin:
            return shared or at not in holders
        return not holders and not self._ledger.is_taken(device.id)

    def _has_room(self, device: Device, consumed: Mapping[str, int]) -> bool:
        used = {n: self._ledger.used(device.id, n) + self._used.get((device.id, n), 0) for n in consumed}
        return fits(device, consumed, used)

    def _has_counters(self, there: There) -> bool:
        """Whether the pool has what a device consumes, beside what is allocated and what this search has chosen."""
        pool = there.pool.id
        for consumed in there.device.consumes:
            available = there.pool.counters[consumed.counter_set]
            for name, amount in consumed.counters.items():
                key = (pool, consumed.counter_set, name)
                if self._ledger.counters.get(key, 0) + self._counters.get(key, 0) + amount > available[name]:
                    return False
        return True

    def _constrain(self, at: int, one: Alternative, device: Device) -> tuple[Chosen, ...] | None:
        """Add a device to the constraints that concern it; `None` if it does not go with the others."""
        added: list[Chosen] = []
        for constraint in self._constraints[at]:
            if not constraint.concerns(one.request.name, one.name):
                continue
            if not constraint.add(device):
                for before in added:
                    before.remove()
                if one.needs.mode is AllocationMode.ALL:
                    raise ClaimRefused(f"{one.at}: wants all devices, but a constraint excludes `{device.id}`")
                return None
            added.append(constraint)
        return tuple(added)

    def allocations(self, node: NodeNames) -> tuple[Allocation, ...]:
        """What was found."""
        return tuple(
            Allocation(
                results=tuple(result for _, result in chosen),
                config=config(
                    claim,
                    [(p.request, p.needs) for p in (self._picked[at, i] for i in range(len(claim.requests)))],
                    self._classes,
                ),
                nodes=usable_on([(there.of, there.device) for there, _ in chosen], node),
            )
            for at, (claim, chosen) in enumerate(zip(self._claims, self._chosen, strict=True))
        )


def _run(first: _Level) -> _End:
    """Run a level of the search with all levels below it."""
    stack = [first]
    end: _End | None = None
    while stack:
        try:
            stack.append(next(stack[-1]) if end is None else stack[-1].send(end))
            end = None
        except StopIteration as stop:
            stack.pop()
            end = stop.value
    assert end is not None
    return end
