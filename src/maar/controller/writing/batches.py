"""Binds that were decided together: one event on the gang after all of them succeeded or failed.

The event reports what happened, not what was planned. If Maar is killed in between, it has reported nothing yet; the
next Maar reports how many pods it bound and how many were bound before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


def assigned(pod: str, node: str) -> str:
    """The text of the event on a bound pod, with which kube-scheduler reports it: tools match it."""
    return f"Successfully assigned {pod} to {node}"


@dataclass(slots=True)
class Batch:
    """Pods of one gang that are bound together."""

    job: str
    left: int
    had: int
    """Pods of the gang that were bound before."""
    alone: str = ""
    """The node, for a single pod that is not a gang."""
    given: int = 0
    whole: bool = True
    """Whether all of them were bound, so far."""

    def __str__(self) -> str:
        if self.alone:
            return assigned(self.job, self.alone)
        pods = f"bound {self.given} pod{'' if self.given == 1 else 's'} of the gang"
        return f"{pods}; {self.had} bound before" if self.had else pods


class Batches:
    """The batches in progress."""

    def __init__(self, finished: Callable[[Batch], None]) -> None:
        self._finished = finished
        self._of: dict[str, Batch] = {}

    def begin(self, job: str, nodes: Mapping[str, str], had: int) -> None:
        """Pods of a job will be bound, each to its node. A job with the key of its pod is a single pod."""
        batch = Batch(job, len(nodes), had, alone=nodes.get(job, "") if len(nodes) == 1 else "")
        self._of.update(dict.fromkeys(nodes, batch))

    def others(self, pod: str) -> list[str]:
        """The other pods that are bound together with this one."""
        batch = self._of.get(pod)
        return [] if batch is None else [other for other, of in self._of.items() if of is batch and other != pod]

    def ended(self, pod: str, given: bool) -> None:
        """A pod was bound, or will not be."""
        batch = self._of.pop(pod, None)
        if batch is None:
            return
        batch.left -= 1
        batch.given += given
        batch.whole = batch.whole and given
        if batch.left == 0 and batch.given:
            self._finished(batch)
