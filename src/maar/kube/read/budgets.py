"""Disruption budgets: which pods each covers, and how many of them may be evicted now.

The count of the disruption controller is used where it exists. Manifests mostly have none; then the count is computed
as the controller does, over the pods that have a node.
"""

from __future__ import annotations

from collections.abc import Iterable

from maar.kube.read.limits import check_selector
from maar.kube.read.selectors import Test, selector
from maar.kube.read.tasks import Member
from maar.kube.wire.base import Percentage
from maar.kube.wire.cluster import PodDisruptionBudget
from maar.kube.wire.errors import FieldError
from maar.model.snapshot import Budget
from maar.model.tasks import Status


def cover(wire: PodDisruptionBudget, members: Iterable[Member]) -> list[Member]:
    """The pods that a budget covers. Raises `TooMuch` if its selector is compared with more labels than a pod's may."""
    check_selector("spec.selector", wire.spec.selector)
    chosen = Test(selector(wire.spec.selector))
    return [m for m in members if chosen.matches(m.pod.metadata.labels)]


def budget(wire: PodDisruptionBudget, covered: Iterable[Member]) -> Budget:
    """How many of the covered pods may go."""
    allowed = wire.status.disruptions_allowed
    if allowed is None:
        allowed = _allowed(wire, sum(m.status is Status.BOUND for m in covered))
    return Budget(wire.key, max(allowed, 0))


def _allowed(wire: PodDisruptionBudget, running: int) -> int:
    spec = wire.spec
    if spec.max_unavailable is not None:
        return min(_scaled(spec.max_unavailable, running, "spec.maxUnavailable"), running)
    if spec.min_available is not None:
        return running - _scaled(spec.min_available, running, "spec.minAvailable")
    return 0


def _scaled(value: Percentage, of: int, field: str) -> int:
    """A number or a percentage of the pods; Kubernetes rounds both kinds of percentage up."""
    if isinstance(value, int):
        number = value
    else:
        text = value.removesuffix("%")
        if text == value or not text.isascii() or not text.isdecimal() or len(text) > 9:
            raise FieldError(field, f"expected a number or a percentage like `50%`, got `{value[:20]}`")
        number = -(-int(text) * of // 100)
    return max(number, 0)
