"""Pods that do not exist yet: jobs in manifests that have no pods, as their controllers would create them.

Files often have a job and not its pods. `maar plan` plans such a job with the pods that its controller creates first
(`JobKind.creates`), and says which jobs it leaves out and why. Pods that come later, as those of a JobSet's second
part, are left out as in a live cluster. Jobs that have ended are no matter.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

import msgspec

from maar.kube.kinds import AnyKind
from maar.kube.kinds.cluster import PODS
from maar.kube.kinds.elastic import MOST
from maar.kube.kinds.kind import Inner, pods_created
from maar.kube.picture.owners import Owner
from maar.kube.picture.picture import Picture
from maar.kube.wire.pods import Pod


class Skipped(msgspec.Struct, frozen=True):
    """A job without pods that is not planned, and why."""

    kind: str
    job: str
    why: str


class Expected(msgspec.Struct, frozen=True):
    """What was added to a picture: the pods of each job; and which jobs are left out."""

    pods: tuple[tuple[Owner, tuple[str, ...]], ...] = ()
    skipped: tuple[Skipped, ...] = ()


def expect(
    picture: Picture, names: frozenset[str] | None, only: Collection[tuple[AnyKind, str]] | None = None
) -> Expected:
    """Add to a picture the pods that controllers would create; `names` are our scheduler names (`None`: all).

    `only`: for these jobs, by kind and key.
    """
    added: list[tuple[Owner, tuple[str, ...]]] = []
    skipped: list[Skipped] = []
    for owner in list(picture.jobs_without_pods()):
        if only is not None and owner.place not in only:
            continue
        inner, pods, why = _created(picture, owner, names)
        if why:
            skipped.append(Skipped(str(owner.kind), f"{owner.namespace}/{owner.name}", why))
            continue
        group = picture.group_for(owner)
        for made in inner:
            picture.put(made.kind, made.item)
        for pod in pods:
            picture.put(PODS, pod if group is None else group.kind.enter(pod, group.item.name))
        added.append((owner, tuple(pod.key for pod in pods)))
    return Expected(tuple(added), tuple(sorted(skipped, key=lambda s: (s.job, s.kind))))


def _created(picture: Picture, owner: Owner, names: frozenset[str] | None) -> tuple[list[Inner], list[Pod], str]:
    """What is created for a job, or why it is not planned."""
    kind, item = owner.kind, owner.item
    if kind.is_suspended(item):
        return [], [], "it is suspended, and its owner resumes it"
    if count := kind.counted(item):
        return [], [], f"its status counts live pods that are not in the input: {count}"
    if why := kind.creates_none(item):
        return [], [], why
    inner: list[Inner] = []
    pods = list(islice(pods_created(kind, item, inner), MOST + 1))
    if not pods:
        return [], [], "it asks for no pods"
    if len(pods) > MOST:
        return [], [], f"it asks for more than {MOST} pods"
    if names is not None and not any(pod.spec.scheduler_name in names for pod in pods):
        return [], [], f"its pods name another scheduler: `{pods[0].spec.scheduler_name}`"
    there = picture.objects.of(PODS)
    if taken := next((pod.key for pod in pods if pod.key in there), None):
        return [], [], f"another pod has the name of one of its pods: `{taken}`"
    return inner, pods, ""
