"""JobSet `jobset.x-k8s.io`: replicated jobs that start together are one gang.

A replicated job that waits for another (`dependsOn`, or the order of `startupPolicy: InOrder`) is a gang of its own:
its pods are created only once the other runs, so one gang of both would wait for itself. With exclusive placement the
first pod of each Job must have a node before the others are created: these others are a gang too. `suspend` stops and
starts all. A JobSet that is resumed starts with the first part that has not completed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from maar.kube.kinds import batchjob
from maar.kube.kinds.batchjob import INDEX_LABEL
from maar.kube.kinds.batchjob import Spec as JobSpec
from maar.kube.kinds.creating import CreatedMember, owned
from maar.kube.kinds.elastic import Role, Stated
from maar.kube.kinds.gang import GangSpec, broken, from_object, set_minimum
from maar.kube.kinds.kind import End, Form, Inner, JobKind, Numbering, end_by, write_suspend
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Int, Metadata, Object, Wire
from maar.kube.wire.jobs import JobStatus
from maar.kube.wire.pods import Pod

NAME_LABEL, ROLE_LABEL = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"
JOB_LABEL, JOBS_LABEL = "jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/replicatedjob-replicas"
EXCLUSIVE, BY_NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/exclusive-topology", "alpha.jobset.sigs.k8s.io/node-selector"
CONTROLLER = "jobset.sigs.k8s.io/jobset-controller"
FIELD = "spec.replicatedJobs"
MOST_PARTS = 100
"""Replicated jobs of a JobSet; tuned by hand, far above what people write. Each can be a gang, and all are looked at
for each pod; 1.5 MB have room for 17,000."""


class JobTemplate(Wire, frozen=True):
    """A Job inside a JobSet."""

    metadata: Metadata = Metadata()
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


class StartupPolicy(Wire, frozen=True):
    """Whether the replicated jobs start one after the other."""

    startup_policy_order: str = ""


class Spec(Wire, frozen=True):
    """What a JobSet is made of."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    startup_policy: StartupPolicy = StartupPolicy()
    suspend: bool = False
    managed_by: str = CONTROLLER


class ReplicatedJobStatus(Wire, frozen=True):
    """How many Jobs of a replicated job have ended well."""

    name: str = ""
    succeeded: Int = 0
    active: Int = 0


class Status(JobStatus, frozen=True):
    """How a JobSet is doing."""

    replicated_jobs_status: tuple[ReplicatedJobStatus, ...] = ()


class JobSet(Object, frozen=True):
    """A JobSet."""

    spec: Spec = Spec()
    status: Status = Status()


class Members(NamedTuple):
    """The pods of a replicated job that are in one part of its JobSet."""

    job: ReplicatedJob
    pods: int


STARTED = frozenset({"StartupPolicyCompleted", "StartupPolicyInProgress"})
"""Conditions of a JobSet that has run. Only one with a startup policy has them."""


def parts(item: JobSet) -> dict[str, list[Members]]:
    """Each part of a JobSet, in the order in which they start; the empty one is the first."""
    if too_many(item):
        return {"": []}
    in_order = item.spec.startup_policy.startup_policy_order == "InOrder"
    found: dict[str, list[Members]] = {}
    for i, job in enumerate(item.spec.replicated_jobs):
        size = job.template.spec.pods
        here = found.setdefault(job.name if job.depends_on or (in_order and i) else "", [])
        if size > 1 and is_exclusive(item, job):
            here.append(Members(job, job.replicas))
            found.setdefault(_followers(job.name), []).append(Members(job, job.replicas * (size - 1)))
        else:
            here.append(Members(job, job.replicas * size))
    return found


def too_many(item: JobSet) -> str:
    """Why a JobSet is invalid if it has more replicated jobs than it may; else empty."""
    count = len(item.spec.replicated_jobs)
    return f"expected at most {MOST_PARTS}, got {count}" if count > MOST_PARTS else ""


def is_exclusive(item: JobSet, job: ReplicatedJob) -> bool:
    """Whether each Job gets a topology domain of its own: that of its first pod, which must have a node first."""
    both = item.metadata.annotations, job.template.metadata.annotations
    return any(EXCLUSIVE in notes for notes in both) and not any(BY_NODE_SELECTOR in notes for notes in both)


def _followers(role: str) -> str:
    return f"{role}-followers"


def part(item: JobSet | None, pod: Pod) -> str:
    """The part of a pod: that of its replicated job, or of the pods that follow the first of each Job."""
    labels = pod.metadata.labels
    role = labels.get(ROLE_LABEL, "")
    if item is None or not role:
        return ""
    there = parts(item)
    if labels.get(INDEX_LABEL) != "0" and _followers(role) in there:
        return _followers(role)
    return role if role in there else ""


def gangs(item: JobSet) -> list[GangSpec]:
    made, done = [], completed(item)
    for name, members in parts(item).items():
        gang = from_object(item)
        gang.part = name
        set_minimum(gang, FIELD, sum(m.pods for m in members))
        gang.left = sum(m.pods - m.pods // m.job.replicas * done.get(m.job.name, 0) for m in members if m.pods)
        if problem := too_many(item):
            broken(gang, FIELD, problem)
            gang.minimum = None
        made.append(gang)
    return made


def end(item: JobSet) -> End | None:
    return end_by(item.status, "Completed")


def look(item: JobSet, made: Object | None) -> Stated | None:
    """The first part that has not completed; its largest replicated job is taken as the workers."""
    if end(item) is not None or item.spec.managed_by != CONTROLLER:
        return None
    name, left = next_part(item)
    if not left:
        return None
    workers = max(left, key=lambda m: m.pods)
    return Stated(
        worker=_role(item, workers),
        role=workers.job.name,
        part=name,
        suspended=item.spec.suspend,
        ran=any(c.type in STARTED for c in item.status.conditions) or None,
        beside=tuple(_role(item, m) for m in left if m is not workers),
        resizable=False,
    )


def completed(item: JobSet) -> dict[str, int]:
    """How many Jobs of each replicated job have completed."""
    return {job.name: job.succeeded for job in item.status.replicated_jobs_status}


def next_part(item: JobSet) -> tuple[str, list[Members]]:
    """The first part that has not completed, with what is left of it."""
    done = completed(item)
    for name, members in parts(item).items():
        left = [m for m in members if m.pods > 0 and done.get(m.job.name, 0) < m.job.replicas]
        if left:
            return name, left
    return "", []


def creates(item: JobSet) -> Iterator[Inner]:
    """The Jobs of the part that starts next. With exclusive placement each gets only its first pod for now."""
    for job, _ in next_part(item)[1]:
        inner = msgspec.structs.replace(job.template.spec, completion_mode="Indexed")
        if inner.pods > 1 and is_exclusive(item, job):
            inner = msgspec.structs.replace(inner, parallelism=1)
        for number in range(job.replicas):
            labels = {
                NAME_LABEL: item.name,
                ROLE_LABEL: job.name,
                JOB_LABEL: str(number),
                JOBS_LABEL: str(job.replicas),
            }
            template = inner.template
            meta = msgspec.structs.replace(template.metadata, labels={**template.metadata.labels, **labels})
            spec = msgspec.structs.replace(inner, template=msgspec.structs.replace(template, metadata=meta))
            made = owned(
                item, KIND.resource, CreatedMember(f"{item.name}-{job.name}-{number}", labels), job.template.metadata
            )
            yield Inner(batchjob.KIND, batchjob.BatchJob(metadata=made, spec=spec))


def creates_none(item: JobSet) -> str:
    by = item.spec.managed_by
    if problem := too_many(item):
        return f"{FIELD}: {problem}"
    return "" if by == CONTROLLER else f"spec.managedBy: another controller creates its pods: `{by}`"


def _role(item: JobSet, members: Members) -> Role:
    labels = {NAME_LABEL: item.name, ROLE_LABEL: members.job.name}
    return Role(members.job.template.spec.template, labels, members.pods)


KIND = JobKind(
    family="jobset",
    resource=Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", True, JobSet),
    writes={"": ("patch",)},
    title="owner",
    form=Form(templates=("spec.replicatedJobs[].template.spec.template",), suspend="spec.suspend"),
    about="replicated jobs that start together; one that waits (`dependsOn`, `InOrder`) is a gang of its own",
    gangs=gangs,
    labels=(NAME_LABEL,),
    part=part,
    role_labels=(ROLE_LABEL,),
    numbering=Numbering(INDEX_LABEL, JOB_LABEL, JOBS_LABEL),
    end=end,
    look=look,
    write=write_suspend,
    creates=creates,
    creates_none=creates_none,
    counted=lambda item: sum(job.active for job in item.status.replicated_jobs_status),
)
