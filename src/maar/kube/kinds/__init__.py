"""The kinds of objects that Maar reads, one file each; this module is the one table of them.

A new kind that makes gangs is a new file and one line in `SOURCES`. Discovery, watches, the picture, gang identity and
its precedence, resizing, status, `maar plan` and the documentation follow from it; a test compares the rights of the
chart with it. Imports `wire` and `model` only; `read`, `picture`, `write` and everything above import from here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from maar.kube.kinds import (
    annotation,
    batchjob,
    cluster,
    jobset,
    leaderworkerset,
    plugins_podgroup,
    raycluster,
    rayjob,
    upstream_podgroup,
    volcano_podgroup,
    volcanojob,
)
from maar.kube.kinds.gang import GangSpec
from maar.kube.kinds.kind import GangSource, JobKind, Kind, Right
from maar.kube.kinds.kubeflow import jaxjob, mpijob, paddlejob, pytorchjob, tfjob, trainjob, xgboostjob
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import api_group
from maar.kube.wire.base import OwnerReference
from maar.kube.wire.pods import Pod
from maar.model.tasks import UNBORN
from maar.model.text import LONGEST_NAME, quoted

AnyKind = Kind[Any]
AnyJobKind = JobKind[Any]

ALONE = GangSource(
    title="pod",
    about="any other pod is a gang of one",
    missing=lambda namespace, name, pods: GangSpec(namespace=namespace, name=name),
)
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
    rayjob.KIND,
    raycluster.KIND,
    leaderworkerset.KIND,
    trainjob.KIND,
    jobset.KIND,
    batchjob.KIND,
    ALONE,
)
"""Every way in which pods form a gang. Where a pod names several gangs, the first in this table wins."""

CLUSTER_KINDS: tuple[AnyKind, ...] = tuple(kind for kind in vars(cluster).values() if isinstance(kind, Kind))
JOB_KINDS: tuple[AnyJobKind, ...] = tuple(source for source in SOURCES if isinstance(source, JobKind))
KINDS: tuple[AnyKind, ...] = (*CLUSTER_KINDS, *(source for source in SOURCES if isinstance(source, Kind)))
"""Every kind of object that Maar reads."""
WATCHED: tuple[AnyKind, ...] = tuple(kind for kind in KINDS if kind.watched)
FAMILIES: tuple[str, ...] = tuple(sorted({kind.family for kind in KINDS if kind.family}))
"""The families of kinds that can be switched off."""
NOTHING: frozenset[str] = frozenset()

_RANKS = {source: rank for rank, source in enumerate(SOURCES)}
_BY_VERSION = {(r.api_version, r.kind): kind for kind in reversed(KINDS) for r in (kind.resource, *kind.older)}
_BY_GROUP = {kind.resource.group_kind: kind for kind in reversed(KINDS)}
_BY_LABEL = {label: tuple(k for k in JOB_KINDS if label in k.labels) for kind in JOB_KINDS for label in kind.labels}
_OWNERS = {
    of: tuple(k for k in JOB_KINDS if k.resource.group_kind == of) for of in {k.resource.group_kind for k in JOB_KINDS}
}
_ROLES: dict[str, Callable[[str], str]] = {label: kind.role_of for kind in JOB_KINDS for label in kind.role_labels}
_ROLES.setdefault(known.TASK_SPEC, str)
_NUMBERINGS = tuple(dict.fromkeys(kind.numbering for kind in JOB_KINDS if kind.numbering is not None))


class Identity(NamedTuple):
    """Which gang: of which source, in which namespace, of which name, and which part of a job. Sorts by precedence."""

    rank: int
    """The place of its source in `SOURCES`."""
    namespace: str
    name: str
    part: str = ""

    @classmethod
    def of(cls, source: GangSource, namespace: str, name: str, part: str = "") -> Identity:
        return cls(_RANKS[source], namespace, name, part)

    @property
    def source(self) -> GangSource:
        return SOURCES[self.rank]

    @property
    def key(self) -> str:
        """The key of its job, unless a gang of an earlier source has the same one."""
        name = f"{self.name}-{self.part}" if self.part else self.name
        return f"{self.namespace}/{name if _NAME.fullmatch(name) else _quoted(name)}"


_NAME = re.compile(r"[A-Za-z0-9._-]{1,506}")
"""What Kubernetes accepts as a name, a label, or two of them."""


def _quoted(name: str) -> str:
    """A short text for a name that no object can have: anyone can write it in an annotation or an owner reference.

    It is never the key of another job: plain names contain no `%`, and what follows `@` in a key comes from Maar alone.
    """
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{quote(name[:40], safe='', errors='replace')}%{digest}"


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
    if said := pod.metadata.annotations.get(known.TASK_SPEC):
        return quoted(said, LONGEST_NAME)
    labels = pod.metadata.labels
    return next((role_of(value) for label, role_of in _ROLES.items() if (value := labels.get(label))), "")


def index(pod: Pod) -> int:
    """A pod's number among pods of its role: by label, else the one at the end of its name."""
    labels = pod.metadata.labels
    for by in _NUMBERINGS if labels else ():
        if (number := _number(labels.get(by.label))) is None:
            continue
        if not by.groups:
            return number
        group, groups = _number(labels.get(by.group)), _number(labels.get(by.groups))
        if group is not None and groups is not None:
            return number * groups + group
    return _number(pod.name.partition(UNBORN)[0].rpartition("-")[2]) or 0


def _number(text: str | None) -> int | None:
    return int(text[-18:]) if text and text.isascii() and text.isdecimal() else None


def rights(without: frozenset[str] = NOTHING) -> list[Right]:
    """Everything that Maar must be allowed to do in a cluster, each once; `without` some families."""
    return sorted({right for kind in _anywhere(without) for right in kind.rights} | set(cluster.WRITTEN_ONLY))


def rights_to_read(without: frozenset[str] = NOTHING) -> list[Right]:
    """The reading half of them, and what else `maar web` needs."""
    return sorted({*rights_of_shadow(without), *cluster.WEB_ONLY})


def rights_of_shadow(without: frozenset[str] = NOTHING) -> list[Right]:
    """The reading half of them: what `maar run --dry-run` needs."""
    return sorted(set(_reading(_anywhere(without))))


def _anywhere(without: frozenset[str]) -> Iterator[AnyKind]:
    return (kind for kind in KINDS if not kind.only and kind.family not in without)


def rights_to_read_at_home() -> list[tuple[str, Right]]:
    """What `maar web` must be allowed to do in Maar's own namespace, each with the name of the object."""
    return sorted((kind.only, right) for kind in KINDS if kind.only for right in _reading([kind]))


def _reading(kinds: Iterable[AnyKind]) -> Iterator[Right]:
    for right in (right for kind in kinds for right in kind.rights):
        if verbs := tuple(verb for verb in right.verbs if verb in ("get", "list", "watch")):
            yield Right(right.group, right.resource, verbs)


def rights_at_home() -> list[tuple[str, Right]]:
    """What Maar must be allowed to do in its own namespace besides, each with the name of the object."""
    kept = ((kind.only, right) for kind in KINDS if kind.only for right in kind.rights)
    return sorted((*kept, (cluster.CONFIGURATION, cluster.PUBLISHING)))
