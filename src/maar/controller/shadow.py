"""Shadow mode: what Maar would have done, beside what another scheduler did.

Nothing is written. For each pod the first decision is remembered; when the pod gets a node from whoever schedules it,
the two are compared. Evictions that Maar would have made count too, and pods that it would have started and nobody did.
"""

from __future__ import annotations

import msgspec

from maar.controller.cache import Cache
from maar.controller.loop import Cycle
from maar.model.tasks import Status


class Decision(msgspec.Struct, frozen=True):
    """Where and when a pod would have been bound."""

    uid: str
    node: str
    at: float


class Tally(msgspec.Struct):
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
        self.tally = Tally()

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
        self.tally.would_evict += len(victims)

    def _compare(self, now: float) -> None:
        first = not self._seen and not self._decided
        for changed in self._cache.changed.values():
            for task in changed[1] if changed is not None else ():
                if task.status is not Status.BOUND or task.uid in self._seen:
                    continue
                self._seen.add(task.uid)
                decided = self._decided.pop(task.key, None)
                if decided is not None and decided.uid == task.uid:
                    if decided.node == task.node:
                        self.tally.same_node += 1
                    else:
                        self.tally.other_node += 1
                    self.tally.seconds_earlier += max(now - decided.at, 0.0)
                elif not first:
                    self.tally.only_theirs += 1

    def line(self) -> str:
        """The comparison so far, in one line."""
        return self.tally.line(len(self._decided))
