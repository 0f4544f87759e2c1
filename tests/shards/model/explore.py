"""Visit every state of a setting, breadth first, so that the first broken invariant has a shortest counterexample.

Liveness is checked on the finished graph. A step is fair if it happens for sure at some time: no fault, and nothing
that a frozen or former holder does. From every state a good state must be reachable by fair steps alone. If not, jobs
can get stuck: no lucky order of events helps any more. And no endless run may be fair in which a job never runs
(`starving.py`).
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from tests.shards.model.invariants import IN_PART, NEVER, STARVED, broken, is_good, is_in_part
from tests.shards.model.rules import Rules
from tests.shards.model.setting import Setting
from tests.shards.model.starving import Duties, Graph
from tests.shards.model.state import State, first
from tests.shards.model.steps import Machine


@dataclass(frozen=True)
class Counterexample:
    kind: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{number:3}. {step}" for number, step in enumerate(self.steps, 1)]
        return "\n".join([*lines, f"  => {self.kind}"])


@dataclass(frozen=True)
class Found:
    states: int
    steps: int
    depth: int
    seconds: float
    counterexample: Counterexample | None


class TooManyStates(Exception):
    """The setting is larger than it should be."""


def explore(
    setting: Setting,
    rules: Rules | None = None,
    most: int = 5_000_000,
    *,
    effects_only: bool = False,
    reduce: bool = True,
) -> Found:
    """Explore a setting until an invariant breaks, or completely.

    `effects_only`: two owners that may bind do not count, only what comes of it. `reduce`: states that differ only in
    what can have no effect are one.
    """
    return _Search(Machine(setting, rules or Rules(), reduce), most, effects_only).run()


class _Search:
    def __init__(self, machine: Machine, most: int, effects_only: bool) -> None:
        self._effects_only = effects_only
        self._machine, self._setting, self._most = machine, machine.setting, most
        begin = first(self._setting)
        self._states: list[State] = [begin]
        self._number: dict[State, int] = {begin: 0}
        self._parent = array("l", [-1])
        self._depth = array("l", [0])
        self._from, self._to, self._kind = array("l"), array("l"), array("l")
        self._duties = Duties()
        self._edges = 0

    def run(self) -> Found:
        begun = time.monotonic()
        bad = self._search() or self._stuck() or self._starved()
        return Found(len(self._states), self._edges, self._depth[-1], time.monotonic() - begun, bad)

    def _search(self) -> Counterexample | None:
        setting, states, number, parent = self._setting, self._states, self._number, self._parent
        here = 0
        while here < len(states):
            for step in self._machine.steps(states[here]):
                self._edges += 1
                after, there = step.after, number.get(step.after)
                if there is None:
                    there = number[after] = len(states)
                    if there >= self._most:
                        raise TooManyStates(f"{setting.name}: more than {self._most} states")
                    states.append(after)
                    parent.append(here)
                    self._depth.append(self._depth[here] + 1)
                    if kind := broken(setting, after, self._effects_only):
                        return Counterexample(kind, self._story(there))
                if step.broken:
                    return Counterexample(step.broken, (*self._story(here), step.text))
                if step.fair:
                    self._from.append(here)
                    self._to.append(there)
                    self._kind.append(self._duties.number(step.text))
            here += 1
        return None

    def _stuck(self) -> Counterexample | None:
        """The nearest state from which no good state can be reached, if there is one."""
        before: list[list[int]] = [[] for _ in self._states]
        for source, target in zip(self._from, self._to, strict=True):
            before[target].append(source)
        good = [i for i, state in enumerate(self._states) if is_good(self._setting, state)]
        saved = bytearray(len(self._states))
        for i in good:
            saved[i] = 1
        queue = deque(good)
        while queue:
            for source in before[queue.popleft()]:
                if not saved[source]:
                    saved[source] = 1
                    queue.append(source)
        stuck = saved.find(0)
        if stuck < 0:
            return None
        return self._dead_end(stuck)

    def _dead_end(self, stuck: int) -> Counterexample:
        """The way to a state that is stuck, and from there on by fair steps as far as it goes."""
        after: dict[int, list[int]] = {}
        for source, target in zip(self._from, self._to, strict=True):
            after.setdefault(source, []).append(target)
        parent, queue, end = {stuck: -1}, deque([stuck]), stuck
        while queue:
            end = queue.popleft()
            for target in after.get(end, ()):
                if target not in parent:
                    parent[target] = end
                    queue.append(target)
        in_part = all(is_in_part(self._setting, self._states[i]) for i in parent)
        end = next((i for i in parent if i not in after), end)
        path = [end]
        while path[-1] != stuck:
            path.append(parent[path[-1]])
        steps = (*self._story(stuck), "(from here on, no order of events serves all jobs)", *self._texts(path[::-1]))
        return Counterexample(IN_PART if in_part else NEVER, steps)

    def _starved(self) -> Counterexample | None:
        """A fair run without end in which some job never runs, if there is one."""
        source, target, kind = (np.frombuffer(column, np.int64) for column in (self._from, self._to, self._kind))
        waits = np.fromiter((not is_good(self._setting, state) for state in self._states), np.bool_)
        again = Graph(len(self._states), source, target, kind, self._duties).starving(waits)
        if not again:
            return None
        steps = (*self._story(again[0]), "(from here on, this happens again and again)", *self._texts(again))
        return Counterexample(STARVED, steps)

    def _story(self, end: int) -> tuple[str, ...]:
        """The steps from the beginning to a state."""
        path = [end]
        while self._parent[path[-1]] >= 0:
            path.append(self._parent[path[-1]])
        return self._texts(path[::-1])

    def _texts(self, path: list[int]) -> tuple[str, ...]:
        story = []
        for here, there in pairwise(path):
            steps = self._machine.steps(self._states[here])
            story.append(next(step.text for step in steps if step.after == self._states[there]))
        return tuple(story)
