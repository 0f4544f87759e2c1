"""What all kinds of the training operator have in common: roles with a number of replicas, and `runPolicy.suspend`.

Scaling down, the operator deletes the highest indices; suspended, it deletes all pods and the PodGroup. The condition
Restarting is a failure that it retries; Failed is one that it gives up on. It counts a worker that is being deleted as
one that failed (`UpdateJobReplicaStatuses` of v1.8.1, for nodes that are lost), also one that it deletes itself because
the job shrinks. What follows from that differs by kind: see `fragile` and `maar.kube.kinds.training`.
"""

from __future__ import annotations

from typing import Any

from maar.kube.kinds.kind import Request, Wanted, Write, merge
from maar.kube.kinds.reading import Bound, Reading, Role, Stated
from maar.kube.wire.base import Object
from maar.kube.wire.groups import KubeflowJob, ReplicaSpec
from maar.kube.wire.resources import Resource

WORKER = "Worker"
ENDS = ("Succeeded", "Failed")


def worker_role(roles: dict[str, ReplicaSpec]) -> str:
    """The role whose number changes; where there is no Worker, the first, whose number does not."""
    return WORKER if WORKER in roles else min(roles)


def state(
    item: KubeflowJob,
    *,
    least: Bound = Bound(),  # noqa: B008
    most: Bound = Bound(),  # noqa: B008
    late: tuple[str, ...] = (),
    **more: Any,
) -> Stated | None:
    """What a job of any kind says; `late` roles come only once others run, and are in no minimum."""
    roles = item.spec.roles
    if not roles or item.status.holds("Succeeded"):
        return None
    worker = worker_role(roles)
    policy = item.spec.run_policy.scheduling_policy
    return Stated(
        worker=_role(item, worker),
        role=worker.lower(),
        suspended=item.spec.run_policy.suspend,
        ran=any(c.type == "Running" for c in item.status.conditions),
        beside=tuple(_role(item, name) for name in sorted(roles) if name != worker and name not in late),
        least=least,
        most=most,
        queue=policy.queue,
        priority_class=policy.priority_class,
        **more,
    )


def _role(item: KubeflowJob, name: str) -> Role:
    spec = item.spec.roles[name]
    labels = {"training.kubeflow.org/job-name": item.name, "training.kubeflow.org/replica-type": name.lower()}
    return Role(spec.template, labels, spec.replicas)


def fragile(item: KubeflowJob) -> str:
    """Why the operator would give up a job, of most kinds, whose size changed now, where it would.

    It does where a worker is being deleted and fewer run than there should be: one of those that stay has yet to start,
    or the job grows before those that leave are gone. Once it counts all as running and none as failed, it is safe.
    """
    roles = item.spec.roles
    if not roles or roles[(worker := worker_role(roles))].restart_policy != "Never":
        return ""
    counted = item.status.replica_statuses.get(worker)
    if counted is None or (counted.active == roles[worker].replicas and not counted.failed):
        return ""
    return "its workers' `restartPolicy` is `Never`: its operator might give it up before all of them run"


def gave_up(item: KubeflowJob) -> bool:
    """Whether the operator is done with a job, one way or the other."""
    return item.status.holds(*ENDS)


def writer(field: str) -> Write:
    """How a kind with that map of roles is written."""

    def write(item: KubeflowJob, resource: Resource[Object], was: Reading, wanted: Wanted) -> list[Request]:
        spec: dict[str, Any] = {}
        if wanted.size != was.size:
            spec[field] = {worker_role(item.spec.roles): {"replicas": wanted.size}}
        if wanted.suspended != was.suspended:
            spec["runPolicy"] = {"suspend": wanted.suspended}
        return [merge(item, resource, spec, wanted.notes)]

    return write
