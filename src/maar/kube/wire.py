"""Thin structs for what Kubernetes sends: the parts that every object has, and the cluster's own objects.

Only fields that a decision needs are here; all others are skipped while decoding. One struct serves JSON bytes
(`msgspec.json.decode`, from an API server) and parsed YAML (`msgspec.convert`, from manifests). Types are as strict as
the API server's: a label that YAML read as a number is an error here as it is there. Nothing is interpreted yet.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Quantity = str | int | float
Quantities = dict[str, Quantity]
Time = Annotated[datetime, Meta(tz=True)]
Int = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""Kubernetes' int32: what does not fit is refused at the door."""
Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Percentage = int | str
"""An IntOrString: `2` or `50%`."""


class Wire(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The base of all: camelCase names, unknown fields ignored."""


class OwnerReference(Wire, frozen=True):
    """Who made an object."""

    kind: str
    name: str
    api_version: str = ""
    controller: bool = False


class Metadata(Wire, frozen=True):
    """Name, labels, annotations and times; a namespace left out means `default`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    resource_version: str = ""
    """Where a watch goes on, and what a write that must not overwrite another's states."""


class Object(Wire, frozen=True):
    """Anything with a name."""

    metadata: Metadata

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.metadata.namespace or "default"

    @property
    def key(self) -> str:
        """`namespace/name`"""
        return f"{self.namespace}/{self.metadata.name}"


class Expression(Wire, frozen=True):
    """One line of a label selector or of a node affinity term."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    """Labels that something must have; an empty one matches everything, a missing one nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Expression, ...] = ()


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

    hard: Quantities = {}


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
