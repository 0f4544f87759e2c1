"""Thin structs for what states a gang: PodGroups of the three dialects, and the owners of pods.

See `maar.kube.wire.cluster` for the rules that all structs follow, and the modules of `maar.kube.dialects` and of
`maar.kube.kinds` for what each field means there.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from maar.kube.wire.base import Int, Metadata, Object, Quantities, Time, Wire
from maar.kube.wire.pods import Container, PodSpec


class Gang(Wire, frozen=True):
    """All or nothing."""

    min_count: Int = 1


class SchedulingPolicy(Wire, frozen=True):
    """`gang`, or `basic`, which is none."""

    gang: Gang | None = None


class TopologyConstraint(Wire, frozen=True):
    """The node label whose domains a group must not span."""

    key: str = ""


class SchedulingConstraints(Wire, frozen=True):
    """Where a group must run."""

    topology: tuple[TopologyConstraint, ...] = ()


class UpstreamSpec(Wire, frozen=True):
    """What an upstream PodGroup asks for."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    priority: Int | None = None
    priority_class_name: str = ""


class GroupCondition(Wire, frozen=True):
    """One condition of a group's status."""

    type: str = ""
    status: str = ""
    message: str = ""


class UpstreamStatus(Wire, frozen=True):
    """How a group stands."""

    conditions: tuple[GroupCondition, ...] = ()


class UpstreamGroup(Object, frozen=True):
    """A PodGroup of `scheduling.k8s.io`."""

    spec: UpstreamSpec = UpstreamSpec()
    status: UpstreamStatus = UpstreamStatus()


class NetworkTopology(Wire, frozen=True):
    """How far apart on the network a gang may be."""

    mode: str = ""
    highest_tier_allowed: Int | None = None
    highest_tier_name: str = ""


class VolcanoSpec(Wire, frozen=True):
    """What a Volcano PodGroup asks for."""

    min_member: Int = 1
    min_task_member: dict[str, Int] = field(default_factory=dict)
    queue: str = ""
    priority_class_name: str = ""
    min_resources: Quantities | None = None
    network_topology: NetworkTopology | None = None


class GroupStatus(Wire, frozen=True):
    """Whether a group is admitted, and how its pods stand."""

    phase: str = ""
    running: Int = 0
    succeeded: Int = 0
    failed: Int = 0
    conditions: tuple[GroupCondition, ...] = ()


class VolcanoGroup(Object, frozen=True):
    """A PodGroup of `scheduling.volcano.sh`."""

    spec: VolcanoSpec = VolcanoSpec()
    status: GroupStatus = GroupStatus()


class PluginsSpec(Wire, frozen=True):
    """What a PodGroup of scheduler-plugins asks for."""

    min_member: Int = 1
    min_resources: Quantities | None = None


class PluginsGroup(Object, frozen=True):
    """A PodGroup of `scheduling.x-k8s.io`."""

    spec: PluginsSpec = PluginsSpec()
    status: GroupStatus = GroupStatus()


class EnvVar(Wire, frozen=True):
    """A variable of a container's environment."""

    name: str = ""
    value: str = ""


class TemplateContainer(Container, frozen=True):
    """A container of a template, with what Voda's users say in its environment."""

    env: tuple[EnvVar, ...] = ()


class TemplateSpec(PodSpec, frozen=True):
    """What the pods of a template will ask for."""

    containers: tuple[TemplateContainer, ...] = ()


class PodTemplate(Wire, frozen=True):
    """Of what pods are made."""

    metadata: Metadata = Metadata()
    spec: TemplateSpec = TemplateSpec()


class JobCondition(Wire, frozen=True):
    """One condition of a job's status."""

    type: str = ""
    status: str = ""
    reason: str = ""


class ReplicaStatus(Wire, frozen=True):
    """How the pods of one role stand, as a job's operator counts them."""

    active: Int = 0
    failed: Int = 0


class JobStatus(Wire, frozen=True):
    """How a job stands, as its operator says."""

    conditions: tuple[JobCondition, ...] = ()
    completion_time: Time | None = None
    replica_statuses: dict[str, ReplicaStatus] = field(default_factory=dict)

    def holds(self, *types: str) -> bool:
        """Whether one of these conditions is true."""
        return any(c.type in types and c.status == "True" for c in self.conditions)


class ReplicaSpec(Wire, frozen=True):
    """One role of a Kubeflow job."""

    replicas: Int = 1
    restart_policy: str = ""
    template: PodTemplate = PodTemplate()


class KubeflowPolicy(Wire, frozen=True):
    """A Kubeflow job's own statement of its gang."""

    min_available: Int | None = None
    queue: str = ""
    priority_class: str = ""
    min_resources: Quantities | None = None


class RunPolicy(Wire, frozen=True):
    """How a Kubeflow job runs."""

    scheduling_policy: KubeflowPolicy = KubeflowPolicy()
    suspend: bool = False


class ElasticPolicy(Wire, frozen=True):
    """How few and how many workers a PyTorchJob can use; with metrics an autoscaler owns its size."""

    min_replicas: Int | None = None
    max_replicas: Int | None = None
    metrics: tuple[dict[str, Any], ...] = ()


class KubeflowSpec(Wire, frozen=True):
    """A Kubeflow job of any kind; each kind has one of the maps of roles."""

    run_policy: RunPolicy = RunPolicy()
    launcher_creation_policy: str = ""
    elastic_policy: ElasticPolicy | None = None
    slots_per_worker: Int = 1
    enable_dynamic_worker: bool = False
    """A TFJob's workers may come and go."""
    pytorch_replica_specs: dict[str, ReplicaSpec] = field(default_factory=dict)
    tf_replica_specs: dict[str, ReplicaSpec] = field(default_factory=dict)
    mpi_replica_specs: dict[str, ReplicaSpec] = field(default_factory=dict)
    xgb_replica_specs: dict[str, ReplicaSpec] = field(default_factory=dict)
    paddle_replica_specs: dict[str, ReplicaSpec] = field(default_factory=dict)
    jax_replica_specs: dict[str, ReplicaSpec] = field(default_factory=dict)

    @property
    def roles(self) -> dict[str, ReplicaSpec]:
        """The map that is there."""
        return (
            self.pytorch_replica_specs
            or self.tf_replica_specs
            or self.mpi_replica_specs
            or self.xgb_replica_specs
            or self.paddle_replica_specs
            or self.jax_replica_specs
        )


class KubeflowJob(Object, frozen=True):
    """A PyTorchJob, TFJob, MPIJob or another of `kubeflow.org`."""

    api_version: str = ""
    kind: str = ""
    spec: KubeflowSpec = KubeflowSpec()
    status: JobStatus = JobStatus()


class VolcanoTask(Wire, frozen=True):
    """One role of a Volcano Job."""

    name: str = ""
    replicas: Int = 1
    min_available: Int | None = None
    template: PodTemplate = PodTemplate()


class VolcanoJobSpec(Wire, frozen=True):
    """A Volcano Job."""

    scheduler_name: str = ""
    min_available: Int | None = None
    queue: str = ""
    priority_class_name: str = ""
    network_topology: NetworkTopology | None = None
    tasks: tuple[VolcanoTask, ...] = ()


class VolcanoJobStatus(Wire, frozen=True):
    """How a Volcano Job stands."""

    state: GroupStatus = GroupStatus()


class VolcanoJob(Object, frozen=True):
    """A Job of `batch.volcano.sh`."""

    spec: VolcanoJobSpec = VolcanoJobSpec()
    status: VolcanoJobStatus = VolcanoJobStatus()


class BatchJobSpec(Wire, frozen=True):
    """How many pods a Job runs at once."""

    parallelism: Int = 1
    completions: Int | None = None
    completion_mode: str = ""
    suspend: bool = False
    template: PodTemplate = PodTemplate()

    @property
    def pods(self) -> int:
        """Those that run at once."""
        return self.parallelism if self.completions is None else min(self.parallelism, self.completions)


class BatchJob(Object, frozen=True):
    """A Job of `batch`."""

    spec: BatchJobSpec = BatchJobSpec()
    status: JobStatus = JobStatus()


class JobTemplate(Wire, frozen=True):
    """A Job inside a JobSet."""

    spec: BatchJobSpec = BatchJobSpec()


class Dependency(Wire, frozen=True):
    """Another Job of the set that comes first."""

    name: str = ""


class ReplicatedJob(Wire, frozen=True):
    """Equal Jobs of a JobSet."""

    name: str = ""
    replicas: Int = 1
    template: JobTemplate = JobTemplate()
    depends_on: tuple[Dependency, ...] = ()


class StartupPolicy(Wire, frozen=True):
    """Whether the Jobs of a set start one after the other."""

    startup_policy_order: str = ""


class JobSetSpec(Wire, frozen=True):
    """Jobs that belong together."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    startup_policy: StartupPolicy = StartupPolicy()


class JobSet(Object, frozen=True):
    """A JobSet of `jobset.x-k8s.io`."""

    spec: JobSetSpec = JobSetSpec()
