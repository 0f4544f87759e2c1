"""What all job kinds of Kubeflow's training operator have in common: roles with replicas, and `runPolicy.suspend`.

Scaling down, the operator deletes the highest indices. Suspended, it deletes all pods and the PodGroup. The condition
Restarting is a failure that it retries; after Failed it gives up. It counts a worker that is being deleted as failed
(`UpdateJobReplicaStatuses` of v1.8.1, meant for lost nodes), also a worker that it deletes itself because the job
shrinks. What follows from that differs by kind: see `fragile` and the files of TFJob and XGBoostJob.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from msgspec import field

from maar.kube.kinds.creating import CreatedMember, pod
from maar.kube.kinds.elastic import ElasticSpec, Role, Stated
from maar.kube.kinds.gang import GangSpec, from_object, set_min_resources, set_minimum
from maar.kube.kinds.kind import Created, End, Form, JobKind, Numbering, Request, WantedState, Write, end_by, merge
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Int, Long, Object, Quantities, Time, Wire
from maar.kube.wire.jobs import JobStatus, PodTemplate
from maar.kube.wire.pods import Pod

WORKER = "Worker"
ENDS = ("Succeeded", "Failed")
ABOUT = "all replicas, or `schedulingPolicy.minAvailable`"
PREFIX = "training.kubeflow.org/"
NAME_LABEL, ROLE_LABEL, INDEX_LABEL = f"{PREFIX}job-name", f"{PREFIX}replica-type", f"{PREFIX}replica-index"
LEADER_LABEL = f"{PREFIX}job-role"


class ReplicaStatus(Wire, frozen=True):
    """The pods of one role, as the operator counts them."""

    active: Int = 0
    failed: Int = 0


class Status(JobStatus, frozen=True):
    """How a job is doing."""

    replica_statuses: dict[str, ReplicaStatus] = field(default_factory=dict)
    start_time: Time | None = None
    """When the operator first saw the job, or saw it resumed."""

    @property
    def ran(self) -> bool | None:
        """Whether the operator has seen the job not suspended; `None` if it has not looked at it yet."""
        if self.start_time is not None or any(c.type == "Running" for c in self.conditions):
            return True
        return False if self.holds("Suspended") else None


class ReplicaSpec(Wire, frozen=True):
    """One role of a job."""

    replicas: Int = 1
    restart_policy: str = ""
    template: PodTemplate = PodTemplate()


class KubeflowPolicy(Wire, frozen=True):
    """A job's own statement of its gang."""

    min_available: Int | None = None
    queue: str = ""
    priority_class: str = ""
    min_resources: Quantities | None = None


class RunPolicy(Wire, frozen=True):
    """How a job runs."""

    scheduling_policy: KubeflowPolicy = KubeflowPolicy()
    suspend: bool = False
    active_deadline_seconds: Long | None = None


class ElasticPolicy(Wire, frozen=True):
    """The smallest and largest number of workers of a PyTorchJob; with metrics an autoscaler owns its size."""

    min_replicas: Int | None = None
    max_replicas: Int | None = None
    metrics: tuple[dict[str, Any], ...] = ()


class Spec(Wire, frozen=True):
    """A job of any of the kinds; each kind has one of the maps of roles."""

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
        return (
            self.pytorch_replica_specs
            or self.tf_replica_specs
            or self.mpi_replica_specs
            or self.xgb_replica_specs
            or self.paddle_replica_specs
            or self.jax_replica_specs
        )


class KubeflowJob(Object, frozen=True):
    """A job of `kubeflow.org`."""

    spec: Spec = Spec()
    status: Status = Status()


Look = Callable[[KubeflowJob], Stated | None]


Creates = Callable[[KubeflowJob, Resource[KubeflowJob]], Iterable[Created]]


def look_safely(item: KubeflowJob) -> Stated | None:
    """What a job states whose size changes only while its operator does not give it up."""
    return None if gave_up(item) else stated(item, keeps=fragile(item))


def kind(
    name: str,
    roles: str,
    look: Look = look_safely,
    version: str = "v1",
    about: str = ABOUT,
    bounds: str = "annotations",
    creates: Creates | None = None,
) -> JobKind[KubeflowJob]:
    """The kind of that name, with its map of roles in the field `roles`."""
    resource = Resource("kubeflow.org", version, f"{name.lower()}s", name, True, KubeflowJob)
    makes = creates or pods
    return JobKind(
        family="kubeflow",
        resource=resource,
        writes={"": ("patch",)},
        title="owner",
        about=about,
        bounds=bounds,
        form=Form(
            templates=(f"spec.{roles}.*.template",),
            suspend="spec.runPolicy.suspend",
            queue="spec.runPolicy.schedulingPolicy.queue",
            priority_class="spec.runPolicy.schedulingPolicy.priorityClass",
        ),
        gangs=gangs,
        labels=(NAME_LABEL,),
        role_labels=(ROLE_LABEL, LEADER_LABEL),
        numbering=Numbering(INDEX_LABEL),
        end=end,
        look=lambda item, made: look(item),
        write=writer(roles),
        creates=lambda item: makes(item, resource),
        deadline=lambda item: item.spec.run_policy.active_deadline_seconds,
        counted=lambda item: sum(role.active for role in item.status.replica_statuses.values()),
    )


def member(kind: str, job: str, roles: Collection[str], role: str, index: int) -> CreatedMember:
    """A pod of the training operator: its name and labels, in a job with these roles."""
    labels = {
        NAME_LABEL: job,
        f"{PREFIX}operator-name": f"{kind.lower()}-controller",
        ROLE_LABEL: role.lower(),
        INDEX_LABEL: str(index),
    }
    if role == "Master" or ("Master" not in roles and kind == "PyTorchJob" and index == 0):
        labels[LEADER_LABEL] = "master"
    name = f"{job}-{role.lower()}"
    return CreatedMember(name if role == "Launcher" else f"{name}-{index}", labels)


def pods(item: KubeflowJob, resource: Resource[KubeflowJob]) -> Iterator[Pod]:
    """The pods of all roles but those that come later."""
    roles = item.spec.roles
    for role, spec in roles.items():
        for index in range(spec.replicas if role not in late(item) else 0):
            yield pod(item, resource, spec.template, member(resource.kind, item.name, roles, role, index))


def gangs(item: KubeflowJob) -> tuple[GangSpec]:
    """One gang: what `schedulingPolicy` states, else all replicas but those created only once others run."""
    made, policy = from_object(item), item.spec.run_policy.scheduling_policy
    if policy.min_available is not None:
        set_minimum(made, "spec.runPolicy.schedulingPolicy.minAvailable", policy.min_available)
    elif roles := item.spec.roles:
        set_minimum(made, "replicas", sum(r.replicas for role, r in roles.items() if role not in late(item)))
    else:
        made.minimum = None
    set_min_resources(made, "spec.runPolicy.schedulingPolicy.minResources", policy.min_resources)
    made.queue = policy.queue
    made.priority_class = policy.priority_class
    return (made,)


def late(item: KubeflowJob) -> tuple[str, ...]:
    """Roles whose pods are created only once others run: waiting for them would never end."""
    return ("Launcher",) if item.spec.launcher_creation_policy == "WaitForWorkersReady" else ()


def end(item: KubeflowJob) -> End | None:
    return end_by(item.status, "Succeeded")


def gave_up(item: KubeflowJob) -> bool:
    """Whether the operator is done with a job, one way or the other."""
    return item.status.holds(*ENDS)


def worker_role(roles: dict[str, ReplicaSpec]) -> str:
    """The role whose number changes; where there is no Worker, the first, whose number does not."""
    return WORKER if WORKER in roles else min(roles)


def stated(item: KubeflowJob, **more: Any) -> Stated | None:
    """What a job of any of the kinds states; `more` are the fields that only its kind knows."""
    roles = item.spec.roles
    if not roles or item.status.holds("Succeeded"):
        return None
    worker = worker_role(roles)
    policy = item.spec.run_policy.scheduling_policy
    return Stated(
        worker=_role(item, worker),
        role=worker.lower(),
        suspended=item.spec.run_policy.suspend,
        ran=item.status.ran,
        beside=tuple(_role(item, name) for name in sorted(roles) if name != worker and name not in late(item)),
        queue=policy.queue,
        priority_class=policy.priority_class,
        **more,
    )


def _role(item: KubeflowJob, name: str) -> Role:
    spec = item.spec.roles[name]
    return Role(spec.template, {NAME_LABEL: item.name, ROLE_LABEL: name.lower()}, spec.replicas)


def fragile(item: KubeflowJob) -> str:
    """Why the operator would give up a job of most kinds if its size changed now; empty where it would not.

    It does where a worker is being deleted and fewer run than there should be: a worker that stays has yet to start, or
    the job grows before the workers that leave are gone. Once it counts all as running and none as failed, it is safe.
    """
    roles = item.spec.roles
    if not roles or roles[(worker := worker_role(roles))].restart_policy != "Never":
        return ""
    counted = item.status.replica_statuses.get(worker)
    if counted is None or (counted.active == roles[worker].replicas and not counted.failed):
        return ""
    return "its workers' `restartPolicy` is `Never`: its operator might give it up before all of them run"


def writer(roles: str) -> Write[KubeflowJob]:
    """How the size of a kind with that map of roles is written."""

    def write(item: KubeflowJob, resource: Resource[Object], was: ElasticSpec, wanted: WantedState) -> list[Request]:
        spec: dict[str, Any] = {}
        if wanted.size != was.size:
            spec[roles] = {worker_role(item.spec.roles): {"replicas": wanted.size}}
        if wanted.suspended != was.suspended:
            spec["runPolicy"] = {"suspend": wanted.suspended}
        return [merge(item, resource, spec, wanted)]

    return write
