"""Patches of the statuses of pods and queues, as kube-scheduler and Volcano's scheduler write them.

State and PodGroup counts of a queue are left to Volcano's controllers, which may run beside Maar.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import msgspec

from maar.kube.kinds.status import time_text
from maar.kube.wire import cluster as wire
from maar.kube.wire.api_resources import PODS, QUEUES
from maar.kube.wire.cluster import QueueSummary
from maar.kube.write.work import Patch
from maar.model.resources import CPU, MEMORY, is_accelerator, quantity
from maar.model.text import quoted

LONGEST = 8000
"""Characters of the message of a condition: several reasons; tuned by hand."""
QUEUE_EVERY = 5.0
"""Minimum seconds between two writes of the status of one queue."""
SUMMARIES = 5
"""Queues that are written in a second if only their summary has changed: in a large tree all shares change at once."""


def waits(pod: str, reason: str, message: str, created: float, node: str | None) -> Patch:
    """The condition of a pod that waits, and in the same request the node that is nominated for it (empty: none).

    It waits since it was created: another reason is no transition, and writing the same reason again changes nothing.
    `None` as node leaves the nomination as it is.
    """
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": quoted(message, LONGEST),
        "lastTransitionTime": time_text(created),
    }
    nominated = {} if node is None else {"nominatedNodeName": node or None}
    namespace, _, name = pod.partition("/")
    body = {"status": {"conditions": [condition], **nominated}}
    return Patch(PODS.path(namespace, name, "status"), body, "strategic")


def nominates(patch: Patch) -> bool:
    """Whether a patch changes the node that is nominated for a pod: later leaders rely on it."""
    status = patch.body.get("status") if isinstance(patch.body, dict) else None
    return isinstance(status, dict) and "nominatedNodeName" in status


class QueueShows(msgspec.Struct, frozen=True):
    """What the status of a queue should say."""

    allocated: Mapping[str, int]
    """What its jobs have."""
    deserved: Mapping[str, int] | None = None
    waiting: int = 0
    """Its waiting jobs, with those of the queues below it."""

    def summary(self, accelerators: Collection[str]) -> QueueSummary:
        """For `kubectl get`: only accelerators, if the cluster has any."""
        due = "" if self.deserved is None else in_short(self.deserved, accelerators)
        return QueueSummary(due, in_short(self.allocated, accelerators), self.waiting)


class WrittenStatus(msgspec.Struct, frozen=True):
    """What the status of a queue says."""

    allocated: Mapping[str, str]
    summary: QueueSummary | None


class QueueStatuses:
    """The statuses of queues: written where something has changed, and not too often.

    Volcano's own definition of Queue drops the summary; then it is not sent again.
    """

    def __init__(self) -> None:
        self._written: dict[str, WrittenStatus] = {}
        self._at: dict[str, float] = {}
        """When each queue was last written."""
        self._again: dict[str, float] = {}
        """When a queue is written again after a write that failed."""
        self._is_kept = True
        """Whether the server keeps summaries."""

    def patches(
        self,
        wanted: Mapping[str, QueueShows],
        shown: Mapping[str, wire.QueueStatus],
        resources: Collection[str],
        now: float,
    ) -> tuple[list[Patch], float | None]:
        """The patches that are due, and when the next one is.

        `wanted` has every queue that has an object, by name, and `shown` what their objects say.
        """
        self._look(shown, now)
        before, self._written = self._written, {}
        self._at = {queue: at for queue, at in self._at.items() if queue in wanted}
        self._again = {queue: at for queue, at in self._again.items() if queue in wanted and now < at}
        accelerators = [name for name in resources if is_accelerator(name)]
        patches: list[Patch] = []
        due: list[float] = []
        summaries = 0
        # Those that were not written for the longest time come first.
        for queue, shows in sorted(wanted.items(), key=lambda item: self._at.get(item[0], -math.inf)):
            has = {name: quantity(name, amount) for name, amount in shows.allocated.items()}
            summary = shows.summary(accelerators) if self._is_kept else None
            known = before.get(queue) or _read(shown.get(queue))
            same = known is not None and has == known.allocated
            if same and known is not None and (summary is None or summary == known.summary):
                self._written[queue] = known
                continue
            ready = self._again.get(queue, self._at.get(queue, -math.inf) + QUEUE_EVERY)
            if same and summaries >= SUMMARIES:
                ready = max(ready, now + 1.0)
            if now < ready:
                due.append(ready)
                if known is not None:
                    self._written[queue] = known
                continue
            summaries += same
            gone = set(resources if known is None else known.allocated) - has.keys()
            status: dict[str, object] = {"allocated": {**dict.fromkeys(sorted(gone)), **has}}
            if summary is not None:
                status["summary"] = msgspec.to_builtins(summary)
            patches.append(Patch(QUEUES.path(name=queue, sub="status"), {"status": status}))
            self._written[queue] = WrittenStatus(has, summary)
            self._at[queue] = now
        return patches, min(due, default=None)

    def failed(self, patch: Patch, again: float) -> None:
        """A patch was refused: what the queue's object shows counts, and it is written again at this moment."""
        queue = patch.key.rpartition("/")[2]
        self._written.pop(queue, None)
        self._at.pop(queue, None)
        self._again[queue] = again

    def _look(self, shown: Mapping[str, wire.QueueStatus], now: float) -> None:
        """Find out whether the server keeps summaries: what was written some seconds ago should be there."""
        if any(status.summary is not None for status in shown.values()):
            self._is_kept = True
        elif any(now >= at + QUEUE_EVERY and queue in shown for queue, at in self._at.items()):
            self._is_kept = False


def _read(status: wire.QueueStatus | None) -> WrittenStatus | None:
    """What a Maar before this one wrote."""
    if status is None or status.allocated is None:
        return None
    return WrittenStatus({name: str(value) for name, value in status.allocated.items()}, status.summary)


def in_short(amounts: Mapping[str, int], accelerators: Collection[str]) -> str:
    """Amounts in one line: `8 nvidia.com/gpu`, or without accelerators in the cluster `12 cpu, 64Gi memory`."""
    return ", ".join(f"{quantity(name, amounts.get(name, 0))} {name}" for name in accelerators or (CPU, MEMORY))
