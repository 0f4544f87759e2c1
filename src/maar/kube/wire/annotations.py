"""The names of the annotations and labels that Maar reads, and a reader for them.

An invalid annotation never raises: the value counts as missing, and `Notes.problem` becomes the reason on the job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from maar.model.text import escaped

T = TypeVar("T")

GROUP_NAME = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
GROUP_MIN_MEMBER = ("scheduling.volcano.sh/group-min-member",)
QUEUE_NAME = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
TASK_SPEC = "volcano.sh/task-spec"
TASK_PRIORITY = ("volcano.sh/task-priority",)
PREEMPTABLE = ("volcano.sh/preemptable",)
REVOCABLE_ZONE = "volcano.sh/revocable-zone"
"""On a pod: `*` if it may use nodes of revocable zones. On a node, as a label: the zone."""
JDB_MIN_AVAILABLE = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
TASK_AFFINITY = "volcano.sh/task-topology-affinity"
TASK_ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
TASK_ORDER = "volcano.sh/task-topology-task-order"
COOLDOWN = ("volcano.sh/cooldown-time",)
BROKEN_GRACE = ("maar.dev/broken-grace-period",)
"""How long a gang stays without its minimum after a pod failed; negative: for ever."""
SLA = ("volcano.sh/sla-waiting-time",)
HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
GROUP_LIMITS = "volcano.sh/nodegroup-resource-limits"
STRATEGY_TYPE = ("volcano.sh/resource-strategy-scoring-type",)
STRATEGY_WEIGHTS = ("volcano.sh/resource-strategy-weight",)
NAMESPACE_WEIGHT = "volcano.sh/namespace.weight"

PLUGINS_GROUP = "scheduling.x-k8s.io/pod-group"
PLAIN_GROUP = "pod_group"
PLAIN_SIZE = ("pod_group_size",)
MIRROR = "kubernetes.io/config.mirror"

CHECKPOINT = ("maar.dev/last-checkpoint-time",)
MAX_RUNTIME = ("maar.dev/max-runtime",)
GANG = ("maar.dev/gang",)
HOLD = ("maar.dev/hold",)
"""On the object that the owner of a job submitted: the job does not start, or stops."""
TOPOLOGY_KEY = ("maar.dev/topology-key",)
TOPOLOGY_MODE = ("maar.dev/topology-mode",)
MIN_WORKERS = ("maar.dev/min-workers",)
MAX_WORKERS = ("maar.dev/max-workers",)
EPOCHS = ("maar.dev/epochs",)
CATEGORY = ("maar.dev/category",)
POOL = ("maar.dev/pool", "maar.dev/accelerator")
RESTART = ("maar.dev/restart-seconds",)
ELASTIC = "maar.dev/elastic"
"""The history of an elastic job that decisions need, written by Maar."""
HOLDS = "maar.dev/holds"
WORKERS = "maar.dev/workers"
PLANNED = "maar.dev/planned-workers"
WHY = "maar.dev/why"
NAMESPACES = "maar.dev/namespaces"
PRIORITY_CLASSES = "maar.dev/priority-classes"
"""On a Queue: what it accepts."""
SHARD = "maar.dev/shard"
"""On a top-level Queue: the shard that should decide for it."""
LOCKED_FOR = "maar.dev/locked-for"
LOCKED_SINCE = "maar.dev/locked-since"
LOCKED_UID = "maar.dev/locked-uid"
FACTS = "maar.dev/facts"
"""On queues and nodes: what plugins remember of them, written by Maar."""
FENCED = "maar.dev/fenced"
"""Written by Maar, and never read: it only moves the version of an object."""
EPOCH = "maar.dev/epoch"
INTENTS = "maar.dev/intents"
"""On the Lease: how often the leader has changed, and the objects that the leader may be writing to."""
EVICTIONS = "maar.dev/evictions"
"""On the Lease: the decided evictions of the leader, which its successor carries out. A key of its own, because a Maar
that does not know it reads the intents as before."""
SPARE = "maar.dev/spare"
"""On the Lease of a shard: a process without a shard, which asks the holder of several for this one."""

CONSUMES_REQUEST = "autoscaling.x-k8s.io/consume-provisioning-request"
CONSUMES_CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
CONSUMES = (CONSUMES_REQUEST, CONSUMES_CLASS)
"""On pods that wait for the nodes of a ProvisioningRequest, so that no autoscaler adds nodes for them as well."""
REQUEST_JOB = "maar.dev/job"
REQUEST_DEMAND = "maar.dev/demand"
REQUEST_ATTEMPT = "maar.dev/attempt"
REQUEST_SETS = "maar.dev/pod-sets"
"""On ProvisioningRequests, written by Maar."""


LONGEST_PROBLEM = 200
"""Characters of a reason that quotes an annotation; tuned by hand."""


LONGEST_VALUE = 1000
"""Characters of an annotation that Maar parses; tuned by hand. Kubernetes allows 256 kB, and values are cached."""


class Notes:
    """Reads the annotations, and optionally the labels, of one object."""

    __slots__ = ("maps", "problem")

    def __init__(self, *maps: Mapping[str, str]) -> None:
        self.maps = [m for m in maps if m]
        self.problem = ""
        """The first invalid annotation, with the error."""

    def read(self, keys: tuple[str, ...], parse: Callable[[str], T]) -> T | None:
        """The parsed value of the first of `keys` that is set; `None` if missing, empty or invalid."""
        for values in self.maps:
            for key in keys:
                if text := values.get(key):
                    try:
                        if len(text) > LONGEST_VALUE:
                            raise ValueError(f"{len(text)} characters, expected at most {LONGEST_VALUE}")
                        return parse(text)
                    except ValueError as error:
                        # A tenant may write any length; reasons go on to conditions and events.
                        self.problem = self.problem or f"`{key}`: {error}"[:LONGEST_PROBLEM]
                        return None
        return None


def text(value: str) -> str:
    """Parses nothing: for annotations that are plain text. Control characters become visible."""
    return escaped(value)
