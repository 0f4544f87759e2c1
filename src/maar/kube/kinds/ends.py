"""How a job of any kind has ended, as its own object says: for accounting, long after decisions have let go of it."""

from __future__ import annotations

from typing import NamedTuple

from maar.kube.kinds import kind_of, kubeflow, volcanojob
from maar.kube.wire.base import Object
from maar.kube.wire.groups import BatchJob, KubeflowJob, VolcanoJob

COMPLETED, FAILED, DELETED = "completed", "failed", "deleted"
GOOD = ("Succeeded", "Complete", "Completed")


class End(NamedTuple):
    """An end."""

    how: str
    at: float | None = None
    """Where the object says it."""


def end_of(item: Object | None) -> End | None:
    """How an object has ended; `None`: it has not. One that is not there any more was deleted."""
    if isinstance(item, KubeflowJob | BatchJob):
        ended = item.status.completion_time
        at = None if ended is None else ended.timestamp()
        if item.status.holds(*GOOD):
            return End(COMPLETED, at)
        if item.status.holds(*kubeflow.ENDS):
            return End(FAILED, at)
    elif isinstance(item, VolcanoJob) and item.status.state.phase in volcanojob.ENDS:
        return End(COMPLETED if item.status.state.phase in GOOD else FAILED)
    return End(DELETED) if item is None or item.metadata.deletion_timestamp is not None else None


def is_paused(item: Object | None) -> bool:
    """Whether somebody, Maar or its owner, has suspended a job."""
    kind = None if item is None else kind_of(item)
    stated = None if kind is None else kind.look(item)
    return stated is not None and stated.suspended
