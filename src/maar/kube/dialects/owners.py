"""Gangs by owner: pods of one PyTorchJob, TFJob, MPIJob, Volcano Job or JobSet that say nothing else.

The minimum is what the owner states, else all of its replicas, else (its object is not there) the pods that are.
Replicas that are created only once others run are left out of it: waiting for them would never end. Pods of a plain
batch Job are gangs of one unless it, or its pods, are annotated `maar.dev/gang: "true"`, or it is elastic. An elastic
job is a gang also while it has no pods.
"""

from __future__ import annotations

from collections.abc import Iterable

from maar.kube.kinds import read
from maar.kube.read.elastic import with_reading
from maar.kube.read.groups import Group, from_object, set_closeness, set_min_resources, set_minimum
from maar.kube.read.objects import KUBEFLOW, Objects
from maar.kube.wire import annotations as known
from maar.kube.wire.annotations import Notes
from maar.kube.wire.base import Object, OwnerReference
from maar.kube.wire.groups import BatchJob, JobSet, KubeflowJob, VolcanoJob
from maar.kube.wire.pods import Pod
from maar.kube.wire.resources import api_group
from maar.kube.wire.values import yes

OWNER_LABELS = (
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "jobset.sigs.k8s.io/jobset-name",
)
"""They name the owner even where a Job stands between it and the pod."""

GANG_KINDS = {
    *(("kubeflow.org", kind) for kind in KUBEFLOW),
    ("batch.volcano.sh", "Job"),
    ("jobset.x-k8s.io", "JobSet"),
}


class Owners:
    """The dialect, with the owners that have an object."""

    name = "owner"

    def __init__(self, objects: Objects, names: frozenset[str] | None = None) -> None:
        self._names = names
        self._groups = [
            *(self._elastic(job, _kubeflow_job(job)) for job in objects.kubeflow_jobs),
            *(self._elastic(job, _volcano_job(job)) for job in objects.volcano_jobs),
            *map(_job_set, objects.job_sets),
        ]
        batch = [(job, self._elastic(job, _batch_job(job))) for job in objects.batch_jobs]
        gangs = [group for job, group in batch if group.reading is not None or _makes_a_gang(job)]
        self.gang_jobs = {f"{group.namespace}/{group.name}" for group in gangs}
        """Batch Jobs whose pods are gangs."""
        self._groups.extend(gangs)

    def _elastic(self, job: Object, group: Group) -> Group:
        reading = read(job, self._names)
        if reading is None:
            return group
        made = with_reading(group, reading)
        made.stands = True
        return made

    def group_of(self, pod: Pod) -> str:
        """The owner's name, by its label or by the pod's owner reference."""
        labels = pod.metadata.labels
        if labels:
            for label in OWNER_LABELS:
                if name := labels.get(label):
                    return name
        for owner in pod.metadata.owner_references:
            if (api_group(owner.api_version), owner.kind) in GANG_KINDS or self._is_gang_job(pod, owner):
                return owner.name
        return ""

    def groups(self) -> Iterable[Group]:
        """Those that have an object."""
        return self._groups

    def missing(self, namespace: str, name: str, pods: list[Pod]) -> Group:
        """The pods that are there are the gang."""
        return Group(namespace=namespace, name=name, minimum=None)

    def _is_gang_job(self, pod: Pod, owner: OwnerReference) -> bool:
        if owner.kind != "Job" or api_group(owner.api_version) != "batch":
            return False
        return f"{pod.namespace}/{owner.name}" in self.gang_jobs or _is_gang(pod.metadata.annotations)


def _makes_a_gang(job: BatchJob) -> bool:
    """Whether a batch Job says of itself, or of the pods that it makes, that they are a gang: it knows how many."""
    return _is_gang(job.metadata.annotations) or _is_gang(job.spec.template.metadata.annotations)


def _is_gang(annotations: dict[str, str]) -> bool:
    return bool(annotations) and Notes(annotations).read(known.GANG, yes) is True


def _kubeflow_job(wire: KubeflowJob) -> Group:
    group = from_object(wire)
    policy = wire.spec.run_policy.scheduling_policy
    if policy.min_available is not None:
        set_minimum(group, "spec.runPolicy.schedulingPolicy.minAvailable", policy.min_available)
    elif roles := wire.spec.roles:
        late = {"Launcher"} if wire.spec.launcher_creation_policy == "WaitForWorkersReady" else set()
        set_minimum(group, "replicas", sum(r.replicas for role, r in roles.items() if role not in late))
    else:
        group.minimum = None
    set_min_resources(group, "spec.runPolicy.schedulingPolicy.minResources", policy.min_resources)
    group.queue = policy.queue
    group.priority_class = policy.priority_class
    return group


def _volcano_job(wire: VolcanoJob) -> Group:
    group = from_object(wire)
    spec = wire.spec
    if spec.min_available is not None:
        set_minimum(group, "spec.minAvailable", spec.min_available)
    elif spec.tasks:
        least = [t.replicas if t.min_available is None else t.min_available for t in spec.tasks]
        set_minimum(group, "spec.tasks", sum(least))
    else:
        group.minimum = None
    stated = {t.name: t.min_available for t in spec.tasks if t.min_available is not None}
    group.role_min = {name: max(minimum, 0) for name, minimum in stated.items()}
    set_closeness(group, "spec.networkTopology", spec.network_topology)
    group.queue = spec.queue
    group.priority_class = spec.priority_class_name
    return group


def _job_set(wire: JobSet) -> Group:
    group = from_object(wire)
    in_order = wire.spec.startup_policy.startup_policy_order == "InOrder"
    pods = [
        job.replicas * job.template.spec.pods
        for i, job in enumerate(wire.spec.replicated_jobs)
        if not job.depends_on and not (in_order and i)
    ]
    if pods:
        set_minimum(group, "spec.replicatedJobs", sum(pods))
    else:
        group.minimum = None
    return group


def _batch_job(wire: BatchJob) -> Group:
    group = from_object(wire)
    set_minimum(group, "spec.parallelism", wire.spec.pods)
    return group
