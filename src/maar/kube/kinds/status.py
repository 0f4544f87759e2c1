"""What the statuses of PodGroups have in common: conditions, counted pods, times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from maar.kube.wire.base import Int, Wire
from maar.model.jobs import Phase


class GroupCondition(Wire, frozen=True):
    """One condition of a group's status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class CountingStatus(Wire, frozen=True):
    """Whether a group is admitted, and how many of its pods are in which state."""

    phase: str = ""
    running: Int = 0
    succeeded: Int = 0
    failed: Int = 0
    conditions: tuple[GroupCondition, ...] = ()


class Tally(NamedTuple):
    """How many pods of a group run or have ended, named as every API that counts them does."""

    running: int = 0
    succeeded: int = 0
    failed: int = 0

    @classmethod
    def of(cls, status: CountingStatus) -> Tally:
        return cls(status.running, status.succeeded, status.failed)

    def since(self, before: Tally) -> dict[str, int]:
        """The counts to write: those that are not zero, or were not."""
        pairs = zip(self._fields, self, before, strict=True)
        return {name: now for name, now, then in pairs if now or then}


def runs(phase: Phase) -> bool:
    """Whether a group in this phase has started."""
    return phase in (Phase.RUNNING, Phase.COMPLETED)


def time_text(at: float) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time_text(at: float) -> str:
    """A time with microseconds, as Kubernetes writes it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
