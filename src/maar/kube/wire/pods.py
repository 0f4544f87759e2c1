"""Thin structs for pods, with the fields of Kubernetes' core/v1.

See `maar.kube.wire.base` for the rules that all structs follow.
"""

from __future__ import annotations

from typing import Literal

from msgspec import field
from msgspec.structs import replace

from maar.kube.wire.base import Expression, Int, LabelSelector, Long, Object, Quantities, Time, Wire


class Resources(Wire, frozen=True):
    """Requests and limits of a container or of a pod."""

    requests: Quantities = field(default_factory=dict)
    limits: Quantities = field(default_factory=dict)


class ContainerPort(Wire, frozen=True):
    container_port: Int = 0
    host_port: Int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Wire, frozen=True):
    """A container; an init container with `restartPolicy: Always` is a sidecar."""

    name: str = ""
    image: str = ""
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class NodeSelectorTerm(Wire, frozen=True):
    """Expressions on the labels and the name of a node; all must match."""

    match_expressions: tuple[Expression, ...] = ()
    match_fields: tuple[Expression, ...] = ()


class NodeSelector(Wire, frozen=True):
    """Terms on nodes; at least one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNode(Wire, frozen=True):
    weight: Int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredNode, ...] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTerm(Wire, frozen=True):
    """Selects pods, and the topology domain to share with them."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PreferredPods(Wire, frozen=True):
    weight: Int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Wire, frozen=True):
    """Pod affinity or pod anti-affinity."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredPods, ...] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class WireToleration(Wire, frozen=True):
    key: str = ""
    operator: Literal["", "Exists", "Equal", "Lt", "Gt"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


class TopologySpread(Wire, frozen=True):
    max_skew: Int = 1
    topology_key: str = ""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: Int = 1
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class Named(Wire, frozen=True):
    """A scheduling gate or a resource claim; only its name is used."""

    name: str = ""


class ClaimSource(Wire, frozen=True):
    """Names a claim in the namespace of the pod."""

    claim_name: str = ""


class EphemeralSource(Wire, frozen=True):
    """Kubernetes creates a claim for the pod; the claim has the details."""


class PodVolume(Wire, frozen=True):
    """A volume of a pod; without one of these sources it needs no claim."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None


class SchedulingGroup(Wire, frozen=True):
    """The gang of a pod in upstream Kubernetes."""

    pod_group_name: str = ""


DEFAULT_SCHEDULER = "default-scheduler"
"""The scheduler of pods that name none."""


class PodSpec(Wire, frozen=True):
    node_name: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER
    priority: Int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: Resources | None = None
    overhead: Quantities = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[WireToleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpread, ...] = ()
    host_network: bool = False
    scheduling_gates: tuple[Named, ...] = ()
    resource_claims: tuple[Named, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    scheduling_group: SchedulingGroup = SchedulingGroup()
    active_deadline_seconds: Long | None = None
    termination_grace_period_seconds: Long | None = None


class ContainerStatus(Wire, frozen=True):
    """The resources allocated to a container; they differ from its spec during an in-place resize."""

    name: str = ""
    allocated_resources: Quantities | None = None
    resources: Resources | None = None


class PodCondition(Wire, frozen=True):
    """A condition; Maar uses only `PodScheduled` and `PodResizePending`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


NO_CONDITION = PodCondition()
INFEASIBLE = PodCondition(type="PodResizePending", status="True", reason="Infeasible")
"""Its node will never carry out the resize that the spec asks for. What else the condition says is not read."""


class PodStatus(Wire, frozen=True):
    phase: str = ""
    nominated_node_name: str = ""
    conditions: tuple[PodCondition, ...] = ()
    """If the pod has a node, only `INFEASIBLE` is kept."""
    start_time: Time | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Quantities | None = None
    resources: Resources | None = None
    resize: str = ""
    """The state of an in-place resize before Kubernetes 1.33, which has a condition for it."""


class Pod(Object, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Whether the pod has succeeded or failed."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def scheduled(self) -> PodCondition:
        """Its condition `PodScheduled`; empty if it has none."""
        return next((c for c in self.status.conditions if c.type == "PodScheduled"), NO_CONDITION)

    @property
    def resize_infeasible(self) -> bool:
        """Whether its node will never carry out the in-place resize that its spec asks for."""
        status = self.status
        if status.resize == INFEASIBLE.reason:
            return True
        pending = next((c for c in status.conditions if c.type == INFEASIBLE.type), NO_CONDITION)
        return pending.reason == INFEASIBLE.reason

    def slim(self) -> Pod:
        """The pod without the conditions that nothing reads: those of a pod that has a node, but for `INFEASIBLE`."""
        if not self.status.conditions or not self.spec.node_name:
            return self
        return replace(self, status=replace(self.status, conditions=(INFEASIBLE,) if self.resize_infeasible else ()))

    def with_conditions_of(self, other: Pod) -> Pod:
        """The pod with the conditions of another version of it, if they change no decision."""
        if self.status.conditions == other.status.conditions or self.resize_infeasible != other.resize_infeasible:
            return self
        return replace(self, status=replace(self.status, conditions=other.status.conditions))


def stage(pod: Object | None) -> str:
    """The stage of a pod for counting; empty while it is pending."""
    if not isinstance(pod, Pod) or pod.status.phase == "Pending":
        return ""
    if not pod.finished and pod.metadata.deletion_timestamp is not None:
        return "Leaving"
    return pod.status.phase
