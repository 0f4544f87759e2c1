"""What one process decides for: everything, or of several shards its own jobs, queues and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from maar.model.facts import About, Fact
from maar.model.resources import Mask


@dataclass(frozen=True, eq=False, slots=True)
class OwnPart:
    """The part of a cluster that a process decides for; `None`: all of it."""

    jobs: Mask | None = None
    """By row of the snapshot."""
    number: Mapping[str, int] = field(default_factory=dict)
    """The row of each job."""
    queues: frozenset[str] | None = None
    nodes: frozenset[str] | None = None

    @property
    def is_all(self) -> bool:
        """Whether no other process decides for any job."""
        return self.jobs is None

    def has_job(self, job: str) -> bool:
        """Whether this process decides for a job. A job that no snapshot has yet may be anybody's."""
        if self.jobs is None:
            return True
        row = self.number.get(job)
        return row is not None and bool(self.jobs[row])

    def has_queue(self, queue: str) -> bool:
        return self.queues is None or queue in self.queues

    def has_node(self, node: str) -> bool:
        return self.nodes is None or node in self.nodes

    def has_fact(self, fact: Fact) -> bool:
        """Whether only this process changes a fact."""
        if fact.about is About.CLUSTER:
            return self.is_all
        has = {About.JOB: self.has_job, About.QUEUE: self.has_queue, About.NODE: self.has_node}
        return has[fact.about](fact.key)


EVERYTHING = OwnPart()
