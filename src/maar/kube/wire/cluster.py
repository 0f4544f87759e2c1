"""Thin structs for the cluster's own objects: nodes, queues, budgets, quotas, priority classes."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from maar.kube.wire.base import Int, LabelSelector, Long, Object, Percentage, Quantities, Wire


class WireTaint(Wire, frozen=True):
    """What keeps pods off a node."""

    key: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str = ""


class Condition(Wire, frozen=True):
    """One condition of an object's status."""

    type: str
    status: str = "Unknown"


class Image(Wire, frozen=True):
    """A container image on a node, under all its names."""

    names: tuple[str, ...] = ()
    size_bytes: Long = 0


class NodeSpec(Wire, frozen=True):
    """A node's wishes."""

    unschedulable: bool = False
    taints: tuple[WireTaint, ...] = ()


class NodeStatus(Wire, frozen=True):
    """What a node has."""

    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: tuple[Condition, ...] = ()
    images: tuple[Image, ...] = ()


class Node(Object, frozen=True):
    """A machine."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PriorityClass(Object, frozen=True):
    """A named priority."""

    value: Int
    global_default: bool = False
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"


class Namespace(Object, frozen=True):
    """A namespace; only its labels matter."""


class ResourceQuotaSpec(Wire, frozen=True):
    """Limits of a namespace."""

    hard: Quantities = field(default_factory=dict)


class ResourceQuota(Object, frozen=True):
    """A quota; only Volcano's weight of the namespace matters."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()


class BudgetSpec(Wire, frozen=True):
    """How many pods must stay, or may go."""

    selector: LabelSelector | None = None
    min_available: Percentage | None = None
    max_unavailable: Percentage | None = None


class BudgetStatus(Wire, frozen=True):
    """What the disruption controller has computed."""

    disruptions_allowed: Int | None = None


class PodDisruptionBudget(Object, frozen=True):
    """A disruption budget (`policy/v1`)."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class ExactMatch(Wire, frozen=True):
    """A member by name."""

    name: str = ""


class RegexMatch(Wire, frozen=True):
    """Members by pattern."""

    pattern: str = ""


class MemberSelector(Wire, frozen=True):
    """Which nodes or HyperNodes are meant."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Wire, frozen=True):
    """One line of a HyperNode's members."""

    type: Literal["Node", "HyperNode"] = "Node"
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Wire, frozen=True):
    """A domain of the network."""

    tier: Int
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNode(Object, frozen=True):
    """A domain of the network (`topology.volcano.sh/v1alpha1`)."""

    spec: HyperNodeSpec


class Guarantee(Wire, frozen=True):
    """What a queue keeps for itself."""

    resource: Quantities | None = None


class QueueSpec(Wire, frozen=True):
    """A queue's share and limits."""

    weight: Int = 1
    capability: Quantities | None = None
    deserved: Quantities | None = None
    guarantee: Guarantee = Guarantee()
    parent: str = ""
    priority: Int = 0
    reclaimable: bool = True
    state: str = ""


class QueueStatus(Wire, frozen=True):
    """Whether a queue takes jobs."""

    state: str = ""


class Queue(Object, frozen=True):
    """A queue (`scheduling.volcano.sh`)."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()
