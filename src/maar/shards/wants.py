"""Wants: what a shard asks of other shards for a waiting job (rule 6 of docs/shards-proof.md).

A want is decided again in every cycle. It keeps its deadline: a want that is not served in time ends, and a pause
follows that doubles each time, so that a want that looks possible and never is does not keep nodes from others.

The want of an elected job that does not fit yet is another one: its nodes are locked, and lent when they are empty. It
is renewed as long as the election stands.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from maar.model.jobs import Job
from maar.model.plan import Evict
from maar.model.scope import Place, place_of

DEADLINE = 30.0
"""Seconds in which a want must be served; tuned by hand: several times what a few lends and evictions take."""
FIRST_PAUSE = 30.0
"""Seconds of the first pause after a missed deadline; tuned by hand."""
LONGEST_PAUSE = 3600.0
ELECTED = 120.0
"""Seconds for which the want of an elected job stands; renewed after half of them. Nobody else ends it if its shard is
dead; tuned by hand: longer than a take-over."""


class Want(msgspec.Struct, frozen=True):
    """The nodes that a waiting job needs, own and foreign, and its place in the one order of the cluster."""

    shard: int
    job: str
    uid: str
    priority: int
    created: float
    nodes: tuple[str, ...]
    """Sorted."""
    deadline: float
    asks: bool = False
    """Its shard uses all these nodes, and asks other shards for evictions (rule 7)."""
    victims: tuple[Evict, ...] = ()
    """Tasks of other shards that must leave."""
    elected: float | None = None
    """When its job was elected, if it was and does not fit yet: its nodes are locked, and lent as they empty."""

    @property
    def place(self) -> Place:
        return -self.priority, self.created, self.uid, self.job

    @property
    def id(self) -> tuple[str, str]:
        return self.job, self.uid

    @property
    def renewed_at(self) -> float:
        """The time at which its shard must decide again: its end; the want of an elected job is renewed before."""
        return self.deadline if self.elected is None else self.deadline - ELECTED / 2


class Pause(msgspec.Struct, frozen=True):
    """A job whose last want was not served in time; it may use nodes of other shards again after `until`."""

    job: str
    uid: str
    until: float
    length: float

    @property
    def id(self) -> tuple[str, str]:
        return self.job, self.uid


def want_of(shard: int, job: Job, nodes: Iterable[str], before: Want | None, now: float) -> Want:
    """A want for a job. One that only changes keeps its deadline."""
    priority, created, uid, key = place_of(job)
    deadline = now + DEADLINE if before is None else before.deadline
    return Want(shard, key, uid, -priority, created, tuple(sorted(set(nodes))), deadline)


def paused(want: Want, before: Pause | None, now: float) -> Pause:
    """The pause after a missed deadline, twice as long as the one before."""
    length = FIRST_PAUSE if before is None else min(before.length * 2, LONGEST_PAUSE)
    return Pause(want.job, want.uid, now + length, length)
