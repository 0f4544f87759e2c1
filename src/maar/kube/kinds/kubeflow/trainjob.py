"""TrainJob `trainer.kubeflow.org` (Kubeflow Trainer v2): the gangs are those of the JobSet that it makes.

Its own spec may say nothing about sizes, which a training runtime states; the JobSet says it all. The Trainer writes
its `suspend` to the JobSet, so only the TrainJob is suspended and resumed.
"""

from __future__ import annotations

import msgspec

from maar.kube.kinds import jobset
from maar.kube.kinds.elastic import Role, Stated
from maar.kube.kinds.kind import COMPLETED, FAILED, End, JobKind, write_suspend
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Object, Wire
from maar.kube.wire.jobs import JobStatus, PodTemplate

CONTROLLER = "trainer.kubeflow.org/trainjob-controller"
NO_RUNTIME = "TrainingRuntimeNotSupported"
"""Why a TrainJob has failed that may still run once its runtime is there."""


class Spec(Wire, frozen=True):
    """Whether a TrainJob runs."""

    suspend: bool = False
    managed_by: str = CONTROLLER


class TrainJob(Object, frozen=True):
    """A TrainJob."""

    spec: Spec = Spec()
    status: JobStatus = JobStatus()


def end(item: TrainJob) -> End | None:
    for condition in item.status.conditions:
        if condition.status == "True" and condition.type in ("Complete", "Failed") and condition.reason != NO_RUNTIME:
            return End(COMPLETED if condition.type == "Complete" else FAILED)
    return None


def look(item: TrainJob, made: Object | None) -> Stated | None:
    """What its JobSet states; before there is one, only whether it is suspended."""
    if end(item) is not None or item.spec.managed_by != CONTROLLER:
        return None
    if not isinstance(made, jobset.JobSet):
        return Stated(worker=Role(PodTemplate(), count=0), role="", suspended=item.spec.suspend, resizable=False)
    found = jobset.look(made, None)
    return found and msgspec.structs.replace(found, suspended=item.spec.suspend)


KIND = JobKind(
    family="trainer",
    resource=Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", True, TrainJob),
    writes={"": ("patch",)},
    title="owner",
    about="as of the JobSet that it makes: typically its initializers, then its nodes",
    gangs=lambda item: (),
    delegates=True,
    end=end,
    look=look,
    write=write_suspend,
    creates_none=lambda item: "its JobSet is not in the input, and Maar does not read the training runtime behind it",
)
