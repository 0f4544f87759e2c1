"""Patches of the statuses of pods and queues, as kube-scheduler and Volcano's scheduler write them.

State and PodGroup counts of a queue are left to Volcano's controllers, which may run beside Maar.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from maar.kube.kinds.status import time_text
from maar.kube.wire.api_resources import PODS, QUEUES
from maar.kube.write.work import Patch
from maar.model.resources import CPU, EPHEMERAL, MEMORY

QUEUE_EVERY = 5.0
"""Minimum seconds between two writes of the status of one queue."""


def waits(pod: str, reason: str, message: str, created: float, node: str | None) -> Patch:
    """The condition of a pod that waits, and in the same request the node that is promised to it (empty: none).

    It waits since it was created: another reason is no transition, and writing the same reason again changes nothing.
    `None` as node leaves the promise as it is.
    """
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": time_text(created),
    }
    promise = {} if node is None else {"nominatedNodeName": node or None}
    namespace, _, name = pod.partition("/")
    body = {"status": {"conditions": [condition], **promise}}
    return Patch(PODS.path(namespace, name, "status"), body, "strategic")


class QueueStatus:
    """What each queue's jobs have, in `status.allocated`: written where it has changed, and not too often."""

    def __init__(self) -> None:
        self._written: dict[str, dict[str, str]] = {}
        self._at: dict[str, float] = {}
        """When each queue was last written."""

    def patches(
        self,
        allocated: Mapping[str, Mapping[str, int]],
        shown: Mapping[str, Mapping[str, str | int | float] | None],
        resources: Iterable[str],
        now: float,
    ) -> tuple[list[Patch], float | None]:
        """The patches that are due, and when the next one is.

        `allocated` has every queue that has an object, by name, and `shown` what their objects say.
        """
        before, self._written = self._written, {}
        self._at = {queue: at for queue, at in self._at.items() if queue in allocated}
        patches: list[Patch] = []
        due: list[float] = []
        for queue, amounts in allocated.items():
            has = {name: quantity(name, amount) for name, amount in amounts.items()}
            known = before.get(queue)
            if known is None and (there := shown.get(queue)) is not None:
                known = {name: str(value) for name, value in there.items()}  # a Maar before this one wrote it
            if has == known:
                self._written[queue] = has
                continue
            at = self._at.get(queue)
            if at is not None and now < at + QUEUE_EVERY:
                due.append(at + QUEUE_EVERY)
                if known is not None:
                    self._written[queue] = known
                continue
            gone = set(resources if known is None else known) - has.keys()
            body = {"status": {"allocated": {**dict.fromkeys(sorted(gone)), **has}}}
            patches.append(Patch(QUEUES.path(name=queue, sub="status"), body))
            self._written[queue] = has
            self._at[queue] = now
        return patches, min(due, default=None)


def quantity(name: str, amount: int) -> str:
    """An amount as Kubernetes writes it, exactly."""
    if name == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name in (MEMORY, EPHEMERAL) or name.startswith("hugepages-"):
        for suffix, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)
