"""Annotations and labels that Maar reads, by name, and a reader that keeps what is broken as a reason.

A broken annotation never raises: the value counts as not given, and `problem` says what is wrong, for the job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")

GROUP_NAME = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
GROUP_MIN_MEMBER = ("scheduling.volcano.sh/group-min-member",)
QUEUE_NAME = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
TASK_SPEC = "volcano.sh/task-spec"
TASK_PRIORITY = ("volcano.sh/task-priority",)
PREEMPTABLE = ("volcano.sh/preemptable",)
COOLDOWN = ("volcano.sh/cooldown-time",)
SLA = ("volcano.sh/sla-waiting-time",)
HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
NAMESPACE_WEIGHT = "volcano.sh/namespace.weight"

PLUGINS_GROUP = "scheduling.x-k8s.io/pod-group"
PLAIN_GROUP = "pod_group"
PLAIN_SIZE = ("pod_group_size",)
MIRROR = "kubernetes.io/config.mirror"

CHECKPOINT = ("maar.dev/last-checkpoint-time",)
MAX_RUNTIME = ("maar.dev/max-runtime",)
GANG = ("maar.dev/gang",)
TOPOLOGY_KEY = ("maar.dev/topology-key",)
TOPOLOGY_MODE = ("maar.dev/topology-mode",)
ELECTED_SINCE = ("maar.dev/elected-since",)
ELECTION_EXPIRED = ("maar.dev/election-expired",)
MIN_WORKERS = ("maar.dev/min-workers",)
MAX_WORKERS = ("maar.dev/max-workers",)
EPOCHS = ("maar.dev/epochs",)
CATEGORY = ("maar.dev/category",)
POOL = ("maar.dev/pool", "maar.dev/accelerator")
RESTART = ("maar.dev/restart-seconds",)
ELASTIC = "maar.dev/elastic"
"""What decisions need of an elastic job's past, written by Maar."""
HOLDS = "maar.dev/holds"
WORKERS = "maar.dev/workers"
PLANNED = "maar.dev/planned-workers"
WHY = "maar.dev/why"
LOCKED_FOR = "maar.dev/locked-for"
LOCKED_SINCE = "maar.dev/locked-since"


class Notes:
    """The annotations (and where asked the labels) of one object, read one by one."""

    __slots__ = ("maps", "problem")

    def __init__(self, *maps: Mapping[str, str]) -> None:
        self.maps = [m for m in maps if m]
        self.problem = ""
        """The first that was broken."""

    def read(self, keys: tuple[str, ...], parse: Callable[[str], T]) -> T | None:
        """The first of `keys` that is there, parsed; `None` where it is missing, empty or broken."""
        for values in self.maps:
            for key in keys:
                if text := values.get(key):
                    try:
                        return parse(text)
                    except ValueError as error:
                        self.problem = self.problem or f"`{key}`: {error}"
                        return None
        return None


def text(value: str) -> str:
    """For annotations that are taken as they are."""
    return value
