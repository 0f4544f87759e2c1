"""Removes the gate of Volcano's queue admission from pods.

The patch is for one pod (by uid) and fails unless the gate is still the only one: a gate of somebody else is never
lost. It needs no intent: a gate cannot come back, and a pod without it only waits like any other pod. Until a watch
shows the result, later plans name the pod again, and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from maar.controller.snapshots.cycle import Cycle
from maar.kube.picture.picture import Picture
from maar.kube.wire.api_resources import PODS
from maar.kube.write.executor import Failed, Outcome, Patch
from maar.model.tasks import QUEUE_GATE

AGAIN = 30.0
"""Seconds until a refused removal is tried again; tuned by hand."""


@dataclass(eq=False, slots=True)
class Gates:
    """Sends the removals of a plan, each once."""

    _picture: Picture
    _submit: Callable[[Patch, Callable[[Outcome], None]], None]
    _trigger: Callable[[], None]
    _sent: dict[str, float | None] = field(default_factory=dict)
    """The uid of a pod to when its removal was refused; `None`: it was not."""
    _refused: list[str] = field(default_factory=list)
    """Uids of pods whose removal was refused since the last plan."""

    def send(self, cycle: Cycle) -> None:
        now = cycle.now
        for uid in self._refused:
            self._sent[uid] = now
        self._refused.clear()
        wanted = {}
        for ungate in cycle.plan.ungate:
            pod = self._picture.pod(ungate.task)
            if pod is not None and pod.metadata.uid == cycle.pods[ungate.task].uid:
                wanted[pod.metadata.uid] = pod
        # Pods that the plan no longer names have lost the gate, or have to ask again.
        self._sent = {uid: at for uid, at in self._sent.items() if uid in wanted}
        for uid, pod in wanted.items():
            at = self._sent.get(uid, now - AGAIN)
            if at is not None and now - at >= AGAIN:
                self._sent[uid] = None
                self._submit(without_gate(PODS.path(pod.namespace, pod.name), uid), partial(self._done, uid))

    def due(self, now: float) -> float | None:
        """When a refused removal is tried again."""
        times = [at + AGAIN for at in self._sent.values() if at is not None]
        return max(min(times), now) if times else None

    def _done(self, uid: str, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self._refused.append(uid)
            self._trigger()


def without_gate(path: str, uid: str) -> Patch:
    """The patch that removes the gate, if it is the only one of this very pod."""
    tests = [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/spec/schedulingGates", "value": [{"name": QUEUE_GATE}]},
    ]
    return Patch(path, [*tests, {"op": "remove", "path": "/spec/schedulingGates"}], "json")
