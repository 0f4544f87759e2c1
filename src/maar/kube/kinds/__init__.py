"""The kinds of objects that Maar reads, one file each; this module is the one table of them.

A new kind that makes gangs is a new file and one line in `SOURCES`. Discovery, watches, the picture, gang identity and
its precedence, resizing, status, `maar plan`, rights and the documentation follow from it. Imports `wire` and `model`
only; `read`, `picture`, `write` and everything above import from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from maar.kube.kinds import (
    annotation,
    batchjob,
    cluster,
    jaxjob,
    jobset,
    mpijob,
    paddlejob,
    plugins_podgroup,
    pytorchjob,
    tfjob,
    upstream_podgroup,
    volcano_podgroup,
    volcanojob,
    xgboostjob,
)
from maar.kube.kinds.gang import GangSpec
from maar.kube.kinds.kind import GangSource, JobKind, Kind, PodGroupKind, Right
from maar.kube.wire import annotations as known
from maar.kube.wire.base import OwnerReference
from maar.kube.wire.pods import Pod
from maar.kube.wire.resources import api_group

AnyKind = Kind[Any]
AnyJobKind = JobKind[Any]

ALONE = GangSource(title="pod", missing=lambda namespace, name, pods: GangSpec(namespace=namespace, name=name))
"""Pods that name no gang: each is a gang of one."""

SOURCES: tuple[GangSource, ...] = (
    upstream_podgroup.KIND,
    volcano_podgroup.KIND,
    plugins_podgroup.KIND,
    annotation.SOURCE,
    pytorchjob.KIND,
    tfjob.KIND,
    mpijob.KIND,
    mpijob.KIND_V2,
    xgboostjob.KIND,
    paddlejob.KIND,
    jaxjob.KIND,
    volcanojob.KIND,
    jobset.KIND,
    batchjob.KIND,
    ALONE,
)
"""Every way in which pods form a gang. Where a pod names several gangs, the first in this table wins."""

CLUSTER_KINDS: tuple[AnyKind, ...] = tuple(kind for kind in vars(cluster).values() if isinstance(kind, Kind))
JOB_KINDS: tuple[AnyJobKind, ...] = tuple(source for source in SOURCES if isinstance(source, JobKind))
KINDS: tuple[AnyKind, ...] = (*CLUSTER_KINDS, *(source for source in SOURCES if isinstance(source, Kind)))
"""Every kind of object that Maar reads."""

_RANKS = {source: rank for rank, source in enumerate(SOURCES)}
_BY_VERSION = {(r.api_version, r.kind): kind for kind in reversed(KINDS) for r in (kind.resource, *kind.older)}
_BY_GROUP = {kind.resource.group_kind: kind for kind in reversed(KINDS)}
_BY_LABEL = {label: tuple(k for k in JOB_KINDS if label in k.labels) for kind in JOB_KINDS for label in kind.labels}
_OWNERS = {
    of: tuple(k for k in JOB_KINDS if k.resource.group_kind == of) for of in {k.resource.group_kind for k in JOB_KINDS}
}
_ROLE_LABELS = tuple(dict.fromkeys((*(label for k in JOB_KINDS for label in k.role_labels), known.TASK_SPEC)))
_INDEX_LABELS = tuple(dict.fromkeys(label for kind in JOB_KINDS for label in kind.index_labels))


class Identity(NamedTuple):
    """Which gang: of which source, in which namespace, of which name, and which part of a job. Sorts by precedence."""

    rank: int
    """The place of its source in `SOURCES`."""
    namespace: str
    name: str
    part: str = ""

    @classmethod
    def of(cls, source: GangSource, namespace: str, name: str, part: str = "") -> Identity:
        """The gang of a source."""
        return cls(_RANKS[source], namespace, name, part)

    @property
    def source(self) -> GangSource:
        """Where the gang is stated."""
        return SOURCES[self.rank]

    @property
    def key(self) -> str:
        """The key of its job, unless a gang of an earlier source has the same one."""
        return f"{self.namespace}/{self.name}-{self.part}" if self.part else f"{self.namespace}/{self.name}"


def kind_named(api_version: str, kind: str) -> AnyKind | None:
    """The kind of a document, by its `apiVersion` and `kind`; fields are the same in every version of a group."""
    return _BY_VERSION.get((api_version, kind)) or _BY_GROUP.get((api_group(api_version), kind))


def owner_kinds(owner: OwnerReference) -> tuple[AnyJobKind, ...]:
    """The kinds that an owner may be of, where it makes gangs: those of its group and kind, in any version."""
    return _OWNERS.get((api_group(owner.api_version), owner.kind), ())


def named_by_label(pod: Pod) -> Iterator[tuple[tuple[AnyJobKind, ...], str]]:
    """Owners that a pod names by label: kinds that it may be of, and its name."""
    if pod.metadata.labels:
        for label, kinds in _BY_LABEL.items():
            if name := pod.metadata.labels.get(label):
                yield kinds, name


def role(pod: Pod) -> str:
    """A pod's role in its gang, by annotation or by the labels that controllers set."""
    return pod.metadata.annotations.get(known.TASK_SPEC) or _label(pod, _ROLE_LABELS)


def index(pod: Pod) -> int:
    """A pod's number among pods of its role: by label, else the one at the end of its name."""
    number = _label(pod, _INDEX_LABELS)
    if not (number.isascii() and number.isdecimal()):
        number = pod.name.rpartition("-")[2]
    return int(number[-18:]) if number.isascii() and number.isdecimal() else 0


def _label(pod: Pod, labels: tuple[str, ...]) -> str:
    found = pod.metadata.labels
    return next((value for label in labels if (value := found.get(label))), "") if found else ""


def rights() -> list[Right]:
    """Everything that Maar must be allowed to do in a cluster, each once."""
    return sorted({right for kind in KINDS for right in kind.rights} | set(cluster.WRITTEN_ONLY))


__all__ = ["ALONE", "JOB_KINDS", "KINDS", "SOURCES", "Identity", "PodGroupKind", "kind_named", "owner_kinds", "rights"]
