"""Kinds of jobs that can be resized or paused, one module each; this is the one table of them.

A new kind is a new module with a `KIND`, and a line here.
"""

from __future__ import annotations

from maar.kube.kinds import batchjob, mpijob, mpijob_v2, pytorchjob, training, volcanojob
from maar.kube.kinds.kind import Kind
from maar.kube.kinds.reading import Reading
from maar.kube.wire.base import Object, OwnerReference
from maar.kube.wire.groups import BatchJob, KubeflowJob, VolcanoJob
from maar.kube.wire.resources import api_group

KINDS: tuple[Kind, ...] = (
    pytorchjob.KIND,
    mpijob.KIND,
    mpijob_v2.KIND,
    *training.KINDS.values(),
    batchjob.KIND,
    volcanojob.KIND,
)

_BY_NAME = {(kind.resource.api_version, kind.resource.kind): kind for kind in KINDS}
_OWNERS = {(kind.resource.group, kind.resource.kind) for kind in KINDS}
_BY_ROLES = {"pytorch_replica_specs": pytorchjob.KIND, "mpi_replica_specs": mpijob.KIND, **training.KINDS}


def kind_of(item: Object) -> Kind | None:
    """The kind of an object. Where a list left it out, a training job is known by its map of roles."""
    if isinstance(item, BatchJob):
        return batchjob.KIND
    if isinstance(item, VolcanoJob):
        return volcanojob.KIND
    if not isinstance(item, KubeflowJob):
        return None
    if found := _BY_NAME.get((item.api_version, item.kind)):
        return found
    return next((kind for field, kind in _BY_ROLES.items() if getattr(item.spec, field)), None)


def read(item: Object, names: frozenset[str] | None = None) -> Reading | None:
    """What a job's object says, where its size is ours to change."""
    kind = kind_of(item)
    return None if kind is None or item.metadata.deletion_timestamp is not None else kind.read(item, names)


def may_own(owner: OwnerReference) -> bool:
    """Whether an owner may be an elastic job."""
    return (api_group(owner.api_version), owner.kind) in _OWNERS
