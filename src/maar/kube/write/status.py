"""Patches of the statuses of pods and queues, as kube-scheduler and Volcano's scheduler write them.

State and PodGroup counts of a queue are left to Volcano's controllers, which may run beside Maar.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from maar.kube.kinds.status import time_text
from maar.kube.wire.api_resources import PODS, QUEUES
from maar.kube.write.work import Patch
from maar.model.resources import CPU, EPHEMERAL, MEMORY


def unschedulable(pod: str, reason: str, created: float) -> Patch:
    """The condition of a pod that waits.

    It waits since it was created: another reason is no transition, and writing the same reason again changes nothing.
    """
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": reason,
        "lastTransitionTime": time_text(created),
    }
    namespace, _, name = pod.partition("/")
    return Patch(PODS.path(namespace, name, "status"), {"status": {"conditions": [condition]}}, "strategic")


class QueueStatus:
    """What each queue's jobs have, in `status.allocated`: written only where it has changed."""

    def __init__(self) -> None:
        self._written: dict[str, dict[str, str]] = {}

    def patches(self, allocated: Mapping[str, Mapping[str, int]], resources: Iterable[str]) -> list[Patch]:
        """The patches that are due: `allocated` has every queue that has an object, by name."""
        before, self._written = self._written, {}
        patches: list[Patch] = []
        for queue, amounts in allocated.items():
            has = self._written[queue] = {name: quantity(name, amount) for name, amount in amounts.items()}
            if has != (known := before.get(queue)):
                # After a start the object's content is not known: every resource that the queue lacks is removed.
                gone = set(resources if known is None else known) - has.keys()
                body = {"status": {"allocated": {**dict.fromkeys(sorted(gone)), **has}}}
                patches.append(Patch(QUEUES.path(name=queue, sub="status"), body))
        return patches


def quantity(name: str, amount: int) -> str:
    """An amount as Kubernetes writes it, exactly."""
    if name == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name in (MEMORY, EPHEMERAL) or name.startswith("hugepages-"):
        for suffix, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)
