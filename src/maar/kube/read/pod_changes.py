"""Whether a pod has changed in anything that a decision about it used.

Of its status only its end counts, and how much it holds: kubelets write the rest all the time, and no decision about
this pod depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from maar.kube.read.requests import holds_the_same
from maar.kube.wire.pods import Pod

DOMAINS = frozenset(
    {
        "kubernetes.io",
        "maar.dev",
        "nvidia.com",
        "scheduling.k8s.io",
        "scheduling.volcano.sh",
        "scheduling.x-k8s.io",
        "volcano.sh",
    }
)
"""The domains of all annotations of pods that Maar reads. It also reads some without a domain."""


def alike(was: Pod, now: Pod) -> bool:
    """Whether the same decision is right for both: two versions of one pod."""
    old, new = was.metadata, now.metadata
    return (
        old.uid == new.uid
        and was.spec == now.spec
        and was.finished == now.finished
        and (old.deletion_timestamp is None) == (new.deletion_timestamp is None)
        and old.labels == new.labels
        and old.owner_references == new.owner_references
        and holds_the_same(was, now)
        and (old.annotations == new.annotations or _used(old.annotations) == _used(new.annotations))
    )


def _used(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if "/" not in key or key.partition("/")[0] in DOMAINS}
