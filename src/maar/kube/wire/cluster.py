"""Thin structs: nodes and their load, priority classes, namespaces, Services, quotas, budgets, HyperNodes, queues."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from maar.kube.wire.base import Int, LabelSelector, Long, Object, Percentage, Quantities, Time, Wire


class WireTaint(Wire, frozen=True):
    key: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str = ""


class Condition(Wire, frozen=True):
    type: str
    status: str = "Unknown"


class Image(Wire, frozen=True):
    """A container image on a node, with all its names."""

    names: tuple[str, ...] = ()
    size_bytes: Long = 0


class NodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: tuple[WireTaint, ...] = ()


class NodeStatus(Wire, frozen=True):
    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: tuple[Condition, ...] = ()
    images: tuple[Image, ...] = ()


class Node(Object, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NodeMetrics(Object, frozen=True):
    """What a node used on average in a window that ended at a time (`metrics.k8s.io`)."""

    timestamp: Time | None = None
    usage: Quantities = field(default_factory=dict)


class PriorityClass(Object, frozen=True):
    value: Int
    global_default: bool = False
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"


class Namespace(Object, frozen=True):
    """A namespace; only its labels are used."""


class ServiceSpec(Wire, frozen=True):
    selector: dict[str, str] = field(default_factory=dict)


class Service(Object, frozen=True):
    """A Service; only which pods it selects is used."""

    spec: ServiceSpec = ServiceSpec()


class ConfigMap(Object, frozen=True):
    data: dict[str, str] = field(default_factory=dict)


class ScopeSelector(Wire, frozen=True):
    """Restricts a quota to some pods; which ones is not read."""


class ResourceQuotaSpec(Wire, frozen=True):
    hard: Quantities = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Wire, frozen=True):
    """What the quota controller enforces, and what it counted."""

    hard: Quantities = field(default_factory=dict)
    used: Quantities = field(default_factory=dict)


class ResourceQuota(Object, frozen=True):
    """A quota, which may also state Volcano's weight of the namespace."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class BudgetSpec(Wire, frozen=True):
    """How many pods must stay available, or may be unavailable."""

    selector: LabelSelector | None = None
    min_available: Percentage | None = None
    max_unavailable: Percentage | None = None


class BudgetStatus(Wire, frozen=True):
    """The result of the disruption controller."""

    disruptions_allowed: Int | None = None


class PodDisruptionBudget(Object, frozen=True):
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class ExactMatch(Wire, frozen=True):
    """Selects a member by name."""

    name: str = ""


class RegexMatch(Wire, frozen=True):
    """Selects members by a pattern of their names."""

    pattern: str = ""


class MemberSelector(Wire, frozen=True):
    """Selects nodes or HyperNodes as members."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Wire, frozen=True):
    type: Literal["Node", "HyperNode"] = "Node"
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Wire, frozen=True):
    tier: Int
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNode(Object, frozen=True):
    """A network domain (`topology.volcano.sh/v1alpha1`)."""

    spec: HyperNodeSpec


class Guarantee(Wire, frozen=True):
    """Resources reserved for a queue."""

    resource: Quantities | None = None


class NodeGroupTerms(Wire, frozen=True):
    """Names of node groups."""

    required: tuple[str, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[str, ...] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class QueueAffinity(Wire, frozen=True):
    """The node groups that a queue may use, and those that it must not use."""

    node_group_affinity: NodeGroupTerms = NodeGroupTerms()
    node_group_anti_affinity: NodeGroupTerms = NodeGroupTerms()


class QueueSpec(Wire, frozen=True):
    weight: Int = 1
    capability: Quantities | None = None
    deserved: Quantities | None = None
    guarantee: Guarantee = Guarantee()
    parent: str = ""
    priority: Int = 0
    reclaimable: bool = True
    state: str = ""
    affinity: QueueAffinity | None = None


class QueueSummary(Wire, frozen=True):
    """What `kubectl get queues` shows; Volcano's own definition of Queue does not have it."""

    deserved: str = ""
    used: str = ""
    waiting: Int = 0


class QueueStatus(Wire, frozen=True):
    """Whether a queue accepts jobs, and what its jobs have (written by Maar, so no decision depends on it)."""

    state: str = ""
    allocated: Quantities | None = None
    summary: QueueSummary | None = None


class Queue(Object, frozen=True):
    """A Volcano queue (`scheduling.volcano.sh`)."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()
