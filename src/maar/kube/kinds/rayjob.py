"""RayJob `ray.io`: the RayCluster that it makes is one gang; the pod that submits the job comes later, by itself.

KubeRay ignores changes of `rayClusterSpec` while the cluster is there: a RayJob keeps its size. It gives up for good a
RayJob that is suspended without `shutdownAfterJobFinishes`, or with `clusterSelector`: Maar never suspends these. With
`clusterSelector` a RayJob uses an existing cluster and has no gang.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import field

from maar.kube.kinds import raycluster
from maar.kube.kinds.creating import CreatedMember, owned
from maar.kube.kinds.elastic import Stated
from maar.kube.kinds.gang import GangSpec
from maar.kube.kinds.kind import COMPLETED, FAILED, End, Form, Inner, JobKind, write_suspend
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Int, Object, Time, Wire


class Spec(Wire, frozen=True):
    """What a RayJob runs in."""

    ray_cluster_spec: raycluster.Spec | None = None
    cluster_selector: dict[str, str] = field(default_factory=dict)
    shutdown_after_job_finishes: bool = False
    suspend: bool = False
    active_deadline_seconds: Int | None = None
    managed_by: str = raycluster.OPERATOR

    @property
    def cluster(self) -> raycluster.Spec | None:
        return None if self.cluster_selector else self.ray_cluster_spec


class Status(Wire, frozen=True):
    """How a RayJob is doing."""

    job_deployment_status: str = ""
    job_status: str = ""
    end_time: Time | None = None


class RayJob(Object, frozen=True):
    """A RayJob."""

    spec: Spec = Spec()
    status: Status = Status()


def gangs(item: RayJob) -> tuple[GangSpec, ...]:
    return () if item.spec.cluster is None else (raycluster.gang(item, item.spec.cluster),)


def end(item: RayJob) -> End | None:
    """How a RayJob has ended; one that was stopped has not completed."""
    status = item.status
    at = None if status.end_time is None else status.end_time.timestamp()
    if status.job_deployment_status == "Complete":
        return End(COMPLETED if status.job_status == "SUCCEEDED" else FAILED, at)
    return End(FAILED, at) if status.job_deployment_status in ("Failed", "ValidationFailed") else None


def look(item: RayJob, made: Object | None) -> Stated | None:
    """What a RayJob states, if it survives being suspended."""
    spec = item.spec
    if spec.cluster is None or not spec.shutdown_after_job_finishes or end(item) is not None:
        return None
    return None if spec.managed_by != raycluster.OPERATOR else raycluster.stated(spec.cluster, suspended=spec.suspend)


def creates(item: RayJob) -> Iterator[Inner]:
    """Its RayCluster. The pod that submits the job comes once the cluster is ready."""
    if item.spec.cluster is not None:
        made = owned(
            item, KIND.resource, CreatedMember(f"{item.name}-cluster", item.metadata.labels, item.metadata.annotations)
        )
        yield Inner(raycluster.KIND, raycluster.RayCluster(metadata=made, spec=item.spec.cluster))


def creates_none(item: RayJob) -> str:
    if item.spec.cluster_selector:
        return "it uses an existing RayCluster (`clusterSelector`)"
    return raycluster.managed(item.spec.managed_by)


KIND = JobKind(
    family="ray",
    resource=Resource("ray.io", "v1", "rayjobs", "RayJob", True, RayJob),
    older=(Resource("ray.io", "v1alpha1", "rayjobs", "RayJob", True, RayJob),),
    writes={"": ("patch",)},
    title="owner",
    form=Form(
        templates=(
            "spec.rayClusterSpec.headGroupSpec.template",
            "spec.rayClusterSpec.workerGroupSpecs[].template",
            "spec.submitterPodTemplate",
        ),
        suspend="spec.suspend",
    ),
    about="the RayCluster that it makes; the pod that submits the job is a gang of one",
    suspends="`shutdownAfterJobFinishes: true` and without `clusterSelector`",
    gangs=gangs,
    part=raycluster.part,
    end=end,
    look=look,
    write=write_suspend,
    creates=creates,
    deadline=lambda item: item.spec.active_deadline_seconds,
    creates_none=creates_none,
)
