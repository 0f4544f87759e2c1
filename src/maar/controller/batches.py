"""Binds that were decided together: the event on a gang is sent once all of them have been carried out or given up.

So it says what happened and not what was meant to: whoever is killed in the middle has said nothing yet, and the one
who comes next says how many it gave their nodes and how many had theirs before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class Batch:
    """The pods of one gang that get their nodes together."""

    job: str
    left: int
    had: int
    """Pods of the gang that have nodes already."""
    alone: str = ""
    """The node of a pod that is no gang."""
    given: int = 0

    def __str__(self) -> str:
        if self.alone:
            return f"bound to {self.alone}"
        pods = (
            "1 pod of the gang was given its node"
            if self.given == 1
            else f"{self.given} pods of the gang were given their nodes"
        )
        return f"{pods}; {self.had} had theirs before" if self.had else pods


class Batches:
    """Those that are on their way."""

    def __init__(self, finished: Callable[[Batch], None]) -> None:
        self._finished = finished
        self._of: dict[str, Batch] = {}

    def begin(self, job: str, nodes: Mapping[str, str], had: int) -> None:
        """These pods of a job will be bound, each to its node; a job with the key of its pod is that pod alone."""
        batch = Batch(job, len(nodes), had, alone=nodes.get(job, "") if len(nodes) == 1 else "")
        self._of.update(dict.fromkeys(nodes, batch))

    def ended(self, pod: str, given: bool) -> None:
        """A pod has its node, or will not get it."""
        batch = self._of.pop(pod, None)
        if batch is None:
            return
        batch.left -= 1
        batch.given += given
        if batch.left == 0 and batch.given:
            self._finished(batch)
