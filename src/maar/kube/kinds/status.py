"""What the statuses of PodGroups have in common: conditions, counted pods, times."""

from __future__ import annotations

from datetime import UTC, datetime

from maar.kube.wire.base import Int, Wire
from maar.model.jobs import Phase


class Condition(Wire, frozen=True):
    """One condition of a group's status."""

    type: str = ""
    status: str = ""
    message: str = ""


class CountingStatus(Wire, frozen=True):
    """Whether a group is admitted, and how many of its pods are in which state."""

    phase: str = ""
    running: Int = 0
    succeeded: Int = 0
    failed: Int = 0
    conditions: tuple[Condition, ...] = ()


def runs(phase: Phase) -> bool:
    """Whether a group in this phase has started."""
    return phase in (Phase.RUNNING, Phase.COMPLETED)


def text_of(now: float) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
