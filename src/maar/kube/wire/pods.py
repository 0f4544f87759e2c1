"""Thin structs for pods: what they need, what they want near them, and where they stand.

Fields are as in Kubernetes' core/v1; see `maar.kube.wire.cluster` for the rules that all structs follow.
"""

from __future__ import annotations

from typing import Literal

from msgspec import field

from maar.kube.wire.base import Expression, Int, LabelSelector, Long, Object, Quantities, Time, Wire


class Resources(Wire, frozen=True):
    """Requests and limits of a container or of a whole pod."""

    requests: Quantities = field(default_factory=dict)
    limits: Quantities = field(default_factory=dict)


class ContainerPort(Wire, frozen=True):
    """A port of a container, perhaps of its host too."""

    container_port: Int = 0
    host_port: Int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Wire, frozen=True):
    """A container; with `restartPolicy: Always` an init container is a sidecar."""

    name: str = ""
    image: str = ""
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class NodeSelectorTerm(Wire, frozen=True):
    """Expressions over a node's labels and its name, all of which must hold."""

    match_expressions: tuple[Expression, ...] = ()
    match_fields: tuple[Expression, ...] = ()


class NodeSelector(Wire, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNode(Wire, frozen=True):
    """A term that is worth something."""

    weight: Int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire, frozen=True):
    """Which nodes."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredNode, ...] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTerm(Wire, frozen=True):
    """Which pods, in which domain."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PreferredPods(Wire, frozen=True):
    """A term that is worth something."""

    weight: Int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Wire, frozen=True):
    """Which neighbours; the same struct for anti-affinity."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredPods, ...] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(Wire, frozen=True):
    """All affinities of a pod."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class WireToleration(Wire, frozen=True):
    """What lets a pod on a tainted node."""

    key: str = ""
    operator: Literal["", "Exists", "Equal", "Lt", "Gt"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


class TopologySpread(Wire, frozen=True):
    """One topology spread constraint."""

    max_skew: Int = 1
    topology_key: str = ""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: Int = 1
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class Named(Wire, frozen=True):
    """Anything of which only the name matters: a scheduling gate, a resource claim."""

    name: str = ""


class ClaimSource(Wire, frozen=True):
    """A claim of the pod's namespace, by name."""

    claim_name: str = ""


class EphemeralSource(Wire, frozen=True):
    """That a claim is made for the pod; what it asks for is on the claim."""


class PodVolume(Wire, frozen=True):
    """A volume of a pod; where it is neither of these it needs no claim."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None


class SchedulingGroup(Wire, frozen=True):
    """Upstream Kubernetes' word for a gang."""

    pod_group_name: str = ""


class PodSpec(Wire, frozen=True):
    """What a pod asks for."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
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


class ContainerStatus(Wire, frozen=True):
    """What a container has been given, which differs from its spec during a resize in place."""

    name: str = ""
    allocated_resources: Quantities | None = None
    resources: Resources | None = None


class PodStatus(Wire, frozen=True):
    """Where a pod stands."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: Time | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Quantities | None = None
    resources: Resources | None = None


class Pod(Object, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status.phase in ("Succeeded", "Failed")
