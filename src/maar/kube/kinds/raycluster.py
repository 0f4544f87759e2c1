"""RayCluster `ray.io`: its head and all its worker groups are one gang; without the head no worker gets ready.

Where Ray's autoscaler is on it owns the size, and the gang is what the cluster has at least. KubeRay keeps the size of
a group within its `minReplicas` and `maxReplicas`. When a group shrinks it deletes any of its pods. It never ends.

Pods of its Job `redis-cleanup`, which come when a cluster is deleted, are gangs of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import field

from maar.kube.kinds.creating import CreatedMember
from maar.kube.kinds.creating import pod as created
from maar.kube.kinds.elastic import Bound, ElasticSpec, Role, Stated
from maar.kube.kinds.gang import GangSpec, from_object, set_minimum
from maar.kube.kinds.kind import Form, JobKind, Request, WantedState, json_patch
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Int, Object, Wire
from maar.kube.wire.jobs import PodTemplate
from maar.kube.wire.pods import Pod

GROUP_LABEL, TYPE_LABEL = "ray.io/group", "ray.io/node-type"
HEAD, HEAD_GROUP, WORKER = "head", "headgroup", "worker"
OPERATOR = "ray.io/kuberay-operator"
ONLY_GROUP = "spec.workerGroupSpecs[0]"


class WorkerGroup(Wire, frozen=True):
    """Equal workers: `numOfHosts` pods for each replica. Defaults are those of the CRD."""

    group_name: str = ""
    replicas: Int = 0
    min_replicas: Int = 0
    max_replicas: Int = 2**31 - 1
    num_of_hosts: Int = 1
    suspend: bool = False
    template: PodTemplate = PodTemplate()

    def pods(self, replicas: int) -> int:
        """How many pods KubeRay makes of that many replicas."""
        kept = min(max(replicas, self.min_replicas), self.max_replicas)
        return 0 if self.suspend else max(kept, 0) * max(self.num_of_hosts, 1)


class HeadGroup(Wire, frozen=True):
    """The head."""

    template: PodTemplate = PodTemplate()


class Spec(Wire, frozen=True):
    """What a RayCluster is made of."""

    head_group_spec: HeadGroup = HeadGroup()
    worker_group_specs: tuple[WorkerGroup, ...] = ()
    enable_in_tree_autoscaling: bool = False
    suspend: bool = False
    managed_by: str = OPERATOR

    @property
    def roles(self) -> list[Role]:
        """The head and each worker group, with the pods that the gang needs of them."""
        made = [_role(HEAD, HEAD_GROUP, self.head_group_spec.template, 1)]
        for group in self.worker_group_specs:
            pods = group.pods(0 if self.enable_in_tree_autoscaling else group.replicas)
            made.append(_role(WORKER, group.group_name, group.template, pods))
        return made


class Status(Wire, frozen=True):
    """How a RayCluster is doing."""

    state_transition_times: dict[str, Any] = field(default_factory=dict)


class RayCluster(Object, frozen=True):
    """A RayCluster."""

    spec: Spec = Spec()
    status: Status = Status()


def _role(node_type: str, group: str, template: PodTemplate, count: int) -> Role:
    return Role(template, {"ray.io/is-ray-node": "yes", TYPE_LABEL: node_type, GROUP_LABEL: group}, count)


def gang(item: Object, spec: Spec) -> GangSpec:
    """The gang of a cluster, whatever object states its spec."""
    made = from_object(item)
    set_minimum(made, "spec.workerGroupSpecs", sum(role.count for role in spec.roles))
    return made


def part(item: Object | None, pod: Pod) -> str | None:
    """The head and the workers; no pod that comes before or after them."""
    return "" if pod.metadata.labels.get(TYPE_LABEL) in (HEAD, WORKER) else None


def stated(spec: Spec, *, resizable: bool = False, **more: Any) -> Stated:
    """What a spec states: of a cluster that keeps its size, the largest role is taken as the workers."""
    roles = [role for role in spec.roles if role.count > 0 or resizable]
    worker = roles[-1] if resizable else max(roles, key=lambda role: role.count)
    beside = tuple(role for role in roles if role is not worker)
    return Stated(worker=worker, role=worker.labels[GROUP_LABEL], beside=beside, resizable=resizable, **more)


def look(item: RayCluster, made: Object | None) -> Stated | None:
    """What a RayCluster states; the bounds of its only group are limits, since the CRD gives every group some."""
    if item.spec.managed_by != OPERATOR:
        return None
    ran = "ready" in item.status.state_transition_times or None
    if not is_resizable(item):
        return stated(item.spec, suspended=item.spec.suspend, ran=ran)
    (group,) = item.spec.worker_group_specs
    return stated(
        item.spec,
        resizable=True,
        suspended=item.spec.suspend,
        ran=ran,
        lowest=Bound(group.min_replicas, f"{ONLY_GROUP}.minReplicas"),
        highest=Bound(group.max_replicas, f"{ONLY_GROUP}.maxReplicas"),
    )


def is_resizable(item: RayCluster) -> bool:
    """Whether a replica is a worker, of one group, whose number its owner leaves to Maar."""
    groups, notes = item.spec.worker_group_specs, item.metadata.annotations
    if len(groups) != 1 or groups[0].num_of_hosts > 1 or groups[0].suspend or item.spec.enable_in_tree_autoscaling:
        return False
    return all(any(key in notes for key in keys) for keys in (known.MIN_WORKERS, known.MAX_WORKERS))


def creates(item: RayCluster) -> Iterator[Pod]:
    """Its head and its workers; with Ray's autoscaler on, `minReplicas` of each group."""
    for role in item.spec.roles:
        group = role.labels[GROUP_LABEL]
        labels = {"ray.io/cluster": item.name, **role.labels}
        for number in range(role.count):
            name = f"{item.name}-head" if group == HEAD_GROUP else f"{item.name}-{group}-worker-{number}"
            yield created(item, KIND.resource, role.template, CreatedMember(name, labels))


def managed(by: str) -> str:
    """Why KubeRay creates no pods of an object; empty if it does."""
    return "" if by == OPERATOR else f"spec.managedBy: another controller creates its pods: `{by}`"


def write(item: RayCluster, resource: Resource[Object], was: ElasticSpec, wanted: WantedState) -> list[Request]:
    """Size and suspension. KubeRay resumes only where `suspend` is false: leaving it out does not resume."""
    values: dict[str, Any] = {}
    if wanted.size != was.size:
        values["/spec/workerGroupSpecs/0/replicas"] = wanted.size
    if wanted.suspended != was.suspended:
        values["/spec/suspend"] = wanted.suspended
    return [json_patch(item, resource, values, wanted)]


KIND = JobKind(
    family="ray",
    resource=Resource("ray.io", "v1", "rayclusters", "RayCluster", True, RayCluster),
    older=(Resource("ray.io", "v1alpha1", "rayclusters", "RayCluster", True, RayCluster),),
    writes={"": ("patch",)},
    title="owner",
    form=Form(templates=("spec.headGroupSpec.template", "spec.workerGroupSpecs[].template"), suspend="spec.suspend"),
    about="its head and all workers; with Ray's autoscaler on, its head and `minReplicas` of each group",
    bounds="both annotations, with one worker group, `numOfHosts` 1 and Ray's autoscaler off",
    gangs=lambda item: (gang(item, item.spec),),
    part=part,
    role_labels=(GROUP_LABEL,),
    look=look,
    write=write,
    creates=creates,
    creates_none=lambda item: managed(item.spec.managed_by),
)
