"""JobSet `jobset.x-k8s.io`: replicated jobs that start together are one gang.

A replicated job that waits for another (`dependsOn`, or the order of `startupPolicy: InOrder`) is a gang of its own:
its pods are created only once the other runs, so one gang of both would wait for itself. `suspend` stops and starts
all.
"""

from __future__ import annotations

from maar.kube.kinds.batchjob import Spec as JobSpec
from maar.kube.kinds.elastic import ElasticSpec, Role, Stated
from maar.kube.kinds.gang import GangSpec, from_object, set_minimum
from maar.kube.kinds.kind import COMPLETED, FAILED, End, JobKind, Request, Wanted, merge
from maar.kube.wire.base import Int, Object, Wire
from maar.kube.wire.jobs import JobStatus
from maar.kube.wire.pods import Pod
from maar.kube.wire.resources import Resource

NAME_LABEL, ROLE_LABEL = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"


class JobTemplate(Wire, frozen=True):
    """A Job inside a JobSet."""

    spec: JobSpec = JobSpec()


class Dependency(Wire, frozen=True):
    """Another replicated job that comes first."""

    name: str = ""


class ReplicatedJob(Wire, frozen=True):
    """Equal Jobs of a JobSet."""

    name: str = ""
    replicas: Int = 1
    template: JobTemplate = JobTemplate()
    depends_on: tuple[Dependency, ...] = ()

    @property
    def pods(self) -> int:
        """Pods of all its Jobs that run at once."""
        return self.replicas * self.template.spec.pods


class StartupPolicy(Wire, frozen=True):
    """Whether the replicated jobs start one after the other."""

    startup_policy_order: str = ""


class Spec(Wire, frozen=True):
    """What a JobSet is made of."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    startup_policy: StartupPolicy = StartupPolicy()
    suspend: bool = False


class Status(JobStatus, frozen=True):
    """How a JobSet is doing."""

    terminal_state: str = ""


class JobSet(Object, frozen=True):
    """A JobSet."""

    spec: Spec = Spec()
    status: Status = Status()


def parts(item: JobSet) -> dict[str, list[ReplicatedJob]]:
    """Replicated jobs by the part of the JobSet they belong to; the empty one starts first."""
    in_order = item.spec.startup_policy.startup_policy_order == "InOrder"
    found: dict[str, list[ReplicatedJob]] = {}
    for i, job in enumerate(item.spec.replicated_jobs):
        found.setdefault(job.name if job.depends_on or (in_order and i) else "", []).append(job)
    return found


def part(item: JobSet | None, pod: Pod) -> str:
    """The part of a pod: that of its replicated job."""
    role = pod.metadata.labels.get(ROLE_LABEL, "")
    return role if item is not None and role and role in parts(item) else ""


def gangs(item: JobSet) -> list[GangSpec]:
    """A gang for each part."""
    made = []
    for name, jobs in parts(item).items():
        gang = from_object(item)
        gang.part = name
        set_minimum(gang, "spec.replicatedJobs", sum(job.pods for job in jobs))
        made.append(gang)
    return made


def end(item: JobSet) -> End | None:
    """How a JobSet has ended."""
    if item.status.holds("Completed"):
        return End(COMPLETED, item.status.ended_at)
    return End(FAILED, item.status.ended_at) if item.status.holds("Failed") else None


def look(item: JobSet, made: Object | None) -> Stated | None:
    """The replicated jobs that start first; the largest is taken as the workers."""
    first = parts(item).get("", [])
    if not first or end(item) is not None:
        return None
    workers = max(first, key=lambda job: job.pods)
    return Stated(
        worker=_role(item, workers),
        role=workers.name,
        suspended=item.spec.suspend,
        ran=any(c.type in ("StartupPolicyCompleted", "StartupPolicyInProgress") for c in item.status.conditions),
        beside=tuple(_role(item, job) for job in first if job is not workers),
        resizable=False,
    )


def _role(item: JobSet, job: ReplicatedJob) -> Role:
    return Role(job.template.spec.template, {NAME_LABEL: item.name, ROLE_LABEL: job.name}, job.pods)


def write(item: Object, resource: Resource[Object], was: ElasticSpec, wanted: Wanted) -> list[Request]:
    """Suspension."""
    return [merge(item, resource, {"suspend": wanted.suspended} if wanted.suspended != was.suspended else {}, wanted)]


KIND = JobKind(
    resource=Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", True, JobSet),
    writes={"": ("patch",)},
    title="owner",
    gangs=gangs,
    labels=(NAME_LABEL,),
    part=part,
    role_labels=(ROLE_LABEL,),
    end=end,
    look=look,
    write=write,
)
