"""A pod's role in its gang and its index among pods of that role, by the labels that controllers set."""

from __future__ import annotations

from collections.abc import Mapping

from maar.kube.wire import annotations as known
from maar.kube.wire.pods import Pod

INDEX_LABELS = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "volcano.sh/task-index",
)
ROLE_LABELS = (
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "jobset.sigs.k8s.io/replicatedjob-name",
    known.TASK_SPEC,
)


def role(pod: Pod) -> str:
    """What a pod does in its gang."""
    found = pod.metadata.annotations.get(known.TASK_SPEC)
    return found or _label(pod.metadata.labels, ROLE_LABELS)


def index(pod: Pod) -> int:
    """A pod's number among its equals: a label's, else the one at the end of its name."""
    number = _label(pod.metadata.labels, INDEX_LABELS)
    if not (number.isascii() and number.isdecimal()):
        number = pod.name.rpartition("-")[2]
    return int(number[-18:]) if number.isascii() and number.isdecimal() else 0


def _label(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    if labels:
        for key in keys:
            if value := labels.get(key):
                return value
    return ""
