"""Binds that were decided together: the event on a gang is sent once all of them have been carried out or given up.

So it says what happened and not what was meant to: whoever is killed in the middle has said nothing yet, and the one
who comes next says how many it gave their nodes and how many had theirs before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class Batch:
    """The pods of one gang that get their nodes together."""

    job: str
    left: int
    had: int
    """Pods of the gang that have nodes already."""
    given: int = 0

    def __str__(self) -> str:
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

    def begin(self, job: str, pods: Iterable[str], had: int) -> None:
        """These pods of a job will be bound."""
        batch = Batch(job, 0, had)
        for pod in pods:
            batch.left += 1
            self._of[pod] = batch

    def ended(self, pod: str, given: bool) -> None:
        """A pod has its node, or will not get it."""
        batch = self._of.pop(pod, None)
        if batch is None:
            return
        batch.left -= 1
        batch.given += given
        if batch.left == 0 and batch.given:
            self._finished(batch)
