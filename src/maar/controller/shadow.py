"""Shadow mode: what Maar would have done, beside what another scheduler did.

Nothing is written. For each pod the first decision is remembered; when the pod gets a node from whoever schedules it,
the two are compared. Evictions that Maar would have made count too, and pods that it would have started and nobody did.
What is gone is forgotten: a shadow may run for weeks.
"""

from __future__ import annotations

import msgspec

from maar.controller.cache import Cache
from maar.controller.loop import Cycle
from maar.model.tasks import Status

STARTED = (Status.BOUND, Status.RELEASING, Status.SUCCEEDED, Status.FAILED)
"""Of a pod with a node; a short one may have ended before the next cycle."""


class Decision(msgspec.Struct, frozen=True):
    """Where and when a pod would have been bound."""

    uid: str
    node: str
    at: float


class Comparison(msgspec.Struct):
    """How decisions and what happened differ."""

    same_node: int = 0
    other_node: int = 0
    only_theirs: int = 0
    """Pods that got a node without a decision of ours."""
    seconds_earlier: float = 0.0
    """How much sooner we decided, over all pods that both started."""
    would_evict: int = 0

    def line(self, waiting: int) -> str:
        """The comparison in one line."""
        both = self.same_node + self.other_node
        sooner = self.seconds_earlier / both if both else 0.0
        return (
            f"shadow: {both} pods started by both ({self.same_node} on the same node, "
            f"{sooner:.1f} s earlier here on average), "
            f"{self.only_theirs} only by the other, {waiting} only here, {self.would_evict} evictions only here"
        )


class Shadow:
    """Compares."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._decided: dict[str, Decision] = {}
        self._seen: set[str] = set()
        self._victims: set[str] = set()
        self._first = True
        self.comparison = Comparison()

    def on_cycle(self, cycle: Cycle) -> None:
        """Take a cycle into account."""
        self._compare(cycle.now)
        for bind in cycle.plan.bind:
            uid = self._cache.task(bind.task).uid
            known = self._decided.get(bind.task)
            if known is None or known.uid != uid:
                self._decided[bind.task] = Decision(uid, bind.node, cycle.now)
        victims = {self._cache.task(e.task).uid for e in cycle.plan.evict} - self._victims
        self._victims |= victims
        self.comparison.would_evict += len(victims)

    def _compare(self, now: float) -> None:
        first, self._first = self._first, False  # What ran before is nobody's news.
        for changed in self._cache.changed.values():
            for task in changed[1] if changed is not None else ():
                if not task.node or task.status not in STARTED or task.uid in self._seen:
                    continue
                self._seen.add(task.uid)
                decided = self._decided.pop(task.key, None)
                if decided is not None and decided.uid == task.uid:
                    if decided.node == task.node:
                        self.comparison.same_node += 1
                    else:
                        self.comparison.other_node += 1
                    self.comparison.seconds_earlier += max(now - decided.at, 0.0)
                elif not first:
                    self.comparison.only_theirs += 1

    def line(self) -> str:
        """The comparison so far, in one line."""
        self._forget()
        return self.comparison.line(len(self._decided))

    def _forget(self) -> None:
        """Drop pods that are not there any more."""
        if self._cache.started:
            there = {task.key: task.uid for task in self._cache.latest.tasks.tasks}
            self._decided = {pod: d for pod, d in self._decided.items() if there.get(pod) == d.uid}
            self._seen.intersection_update(there.values())
            self._victims.intersection_update(there.values())
