"""Elastic jobs: how few and how many workers, how many now, and what decisions need of the past.

A job of a kind that can be resized or paused says what it can use; `resize` decides how many workers it gets. Its
*past* leaves in the plan, lives in an annotation on the job's own object and comes back in the next snapshot.
"""

from __future__ import annotations

import math

import msgspec

from maar.model.shapes import Shape


class Past(msgspec.Struct, frozen=True, omit_defaults=True):
    """What decisions need of a job's past. Times are seconds since 1970."""

    first_start: float | None = None
    last_resize: float | None = None
    """When its size was last changed, or it was stopped or started."""
    since: float | None = None
    """Since when it runs, or is stopped."""
    ran: float = 0.0
    """How long its last run was, while it is stopped."""
    attained: float = 0.0
    """GPU seconds that it had at `counted`."""
    counted: float | None = None
    forgiven: float = 0.0
    """GPU seconds before its last promotion: its level in the queues counts from there."""


class Elastic(msgspec.Struct, frozen=True):
    """What an elastic job says, and how it stands."""

    min: int
    max: int
    shape: Shape
    """What one worker asks for."""
    size: int = 0
    """Workers that its object asks for; while suspended, what it would start with."""
    requested: int = 0
    """What its owner asked for at first: for algorithms that give all of it or nothing."""
    suspended: bool = False
    role: str = ""
    """The role of its workers among its pods."""
    beside: tuple[Shape, ...] = ()
    """Its pods beside its workers, which its minimum counts too: a master, a launcher."""
    pausable: bool = True
    """Whether it can be suspended; if not, a job that has started keeps its minimum."""
    keeps: str = ""
    """Why its size may not change now, where that is so: its bounds are its size then."""
    pool: str = ""
    """The pool it asks for by name."""
    past: Past = Past()
    holds: tuple[tuple[str, int], ...] = ()
    """Room that is kept for its workers to come: node, how many."""
    restart: float | None = None
    """Seconds that a change of its size costs it; `None`: as the configuration says."""
    speedup: tuple[tuple[int, float], ...] = ()
    """What was measured: on so many workers so many times as fast as on one. Nothing: linear."""
    remaining: float = math.inf
    """Seconds left on one worker."""

    @property
    def now(self) -> int:
        """Workers that it has or is being given."""
        return 0 if self.suspended else self.size
