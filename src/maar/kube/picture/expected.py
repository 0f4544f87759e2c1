"""Pods that do not exist yet: jobs in manifests that have no pods, as their controllers would create them.

Files often have a job and not its pods. `maar plan` plans such a job with the pods that its controller creates first
(`JobKind.creates`), and says which jobs it leaves out and why. Pods that come later, as those of a JobSet's second
part, are left out as in a live cluster. Jobs that have ended are no matter.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from maar.kube.kinds import AnyKind
from maar.kube.kinds.cluster import PODS
from maar.kube.kinds.elastic import MOST
from maar.kube.kinds.kind import Inner, created
from maar.kube.picture.owners import Owner
from maar.kube.picture.picture import Picture
from maar.kube.wire.errors import ManifestError
from maar.kube.wire.pods import Pod
from maar.model.words import count as counted


class TooManyPods(ManifestError):
    """All jobs together ask for more pods than there may be."""

    def __init__(self, most: int) -> None:
        super().__init__(f"manifests: expected at most {counted(most, 'pod')} in all, got more")


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
    picture: Picture,
    names: frozenset[str] | None,
    only: Collection[tuple[AnyKind, str]] | None = None,
    most: int | None = None,
) -> Expected:
    """Add to a picture the pods that controllers would create; `names` are our scheduler names (`None`: all).

    `only`: for these jobs, by kind and key. `most`: a `TooManyPods` if the picture would have more pods than this;
    nothing is built beyond it.
    """
    have = len(picture.objects.of(PODS))
    if most is not None and have > most:
        raise TooManyPods(most)
    added: list[tuple[Owner, tuple[str, ...]]] = []
    skipped: list[Skipped] = []
    for owner in list(picture.jobs_without_pods()):
        if only is not None and owner.place not in only:
            continue
        left = None if most is None else most - have
        inner, pods, why = _created(picture, owner, names, left)
        if left is not None and max(len(pods), len(inner)) > left:
            raise TooManyPods(left + have)
        have += max(len(pods), len(inner))
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


def _created(
    picture: Picture, owner: Owner, names: frozenset[str] | None, left: int | None
) -> tuple[list[Inner], list[Pod], str]:
    """What is created for a job, or why it is not planned; if it is more than `left`, only the first of it."""
    kind, item = owner.kind, owner.item
    if kind.is_suspended(item):
        return [], [], "it is suspended, and its owner resumes it"
    if count := kind.counted(item):
        return [], [], f"its status counts live pods that are not in the input: {count}"
    if why := kind.creates_none(item):
        return [], [], why
    inner: list[Inner] = []
    pods: list[Pod] = []
    bound = MOST if left is None else min(MOST, left)
    for made in created(kind, item):
        if isinstance(made, Pod):
            pods.append(made)
        else:
            inner.append(made)
        if len(pods) > bound or len(inner) > bound:
            break  # each of them: a JobSet may ask for many Jobs without pods
    if left is not None and max(len(pods), len(inner)) > left:
        return inner, pods, ""
    if len(pods) > MOST or len(inner) > MOST:
        return [], [], f"it asks for more than {MOST} pods"
    if not pods:
        return [], [], "it asks for no pods"
    if names is not None and not any(pod.spec.scheduler_name in names for pod in pods):
        return [], [], f"its pods name another scheduler: `{pods[0].spec.scheduler_name}`"
    there = picture.objects.of(PODS)
    if taken := next((pod.key for pod in pods if pod.key in there), None):
        return [], [], f"another pod has the name of one of its pods: `{taken}`"
    return inner, pods, ""
