"""Elastic jobs: bounds, current size, and the history that decisions need.

A job that can be resized or suspended declares its bounds; the action `resize` decides how many workers it gets. Its
`Past` leaves in the plan, is stored in an annotation on the job's own object, and returns in the next snapshot.
"""

from __future__ import annotations

import math

import msgspec

from maar.model.lengths import Estimate
from maar.model.shapes import Shape


class Past(msgspec.Struct, frozen=True, omit_defaults=True):
    """The history of a job that decisions need. Times are seconds since 1970."""

    first_start: float | None = None
    last_resize: float | None = None
    """When it was last resized, suspended or resumed."""
    since: float | None = None
    """Since when it runs or is suspended."""
    ran: float = 0.0
    """While it is suspended: how long its last run was."""
    attained: float = 0.0
    """GPU seconds attained until `counted`."""
    counted: float | None = None
    forgiven: float = 0.0
    """GPU seconds attained before its last promotion; its queue level counts from there."""
    idle: float = 0.0
    """Seconds without workers before `since`."""


class Elastic(msgspec.Struct, frozen=True):
    """What an elastic job declares, and its current state."""

    min: int
    max: int
    shape: Shape
    """The requests of one worker."""
    size: int = 0
    """Workers that its object requests; while suspended, the size it would start with."""
    requested: int = 0
    """The size that its owner first requested, for algorithms that give all of it or nothing."""
    suspended: bool = False
    rigid: bool = False
    """Its size never changes: it starts as any gang does, on the nodes of any pool, and no algorithm decides for it.
    While it is suspended its pods are tasks that do not exist yet (`Task.unborn`)."""
    role: str = ""
    """The role of its worker pods."""
    beside: tuple[Shape, ...] = ()
    """Its pods that are not workers but count towards its minimum: a master, a launcher."""
    pausable: bool = True
    """Whether it can be suspended. If not, a job that has started keeps its minimum."""
    keeps: str = ""
    """Why its size must not change now, or empty. If set, both bounds equal its size."""
    pool: str = ""
    """The name of the pool that it requests."""
    past: Past = Past()
    reserved: tuple[tuple[str, int], ...] = msgspec.field(default=(), name="holds")
    """Room reserved for workers that do not exist yet: place (`Reserve.place`) and count."""
    restart: float | None = None
    """Seconds that a resize costs the job; `None`: use the configured value."""
    speedup: tuple[tuple[int, float], ...] = ()
    """Learnt speed-up: number of workers, and speed relative to one worker. Empty: linear."""
    measured: int = 0
    """The largest size at which it was measured; 0 if that is its last point, or if nothing was measured."""
    remaining: float = math.inf
    """Seconds of work left on one worker, as the job itself says; infinite if it does not."""
    length: Estimate | None = None
    """All its work by the history, in seconds on one worker; for a job that neither says nor promises its length."""
    kind: str = ""
    """Jobs of one kind are taken to be as long as each other while no length is known; empty if nothing says so."""

    @property
    def shapes_beside(self) -> tuple[Shape, ...]:
        """The different shapes of the pods beside its workers."""
        return tuple(dict.fromkeys(self.beside))

    @property
    def now(self) -> int:
        """Workers that it has or is about to get."""
        return 0 if self.suspended else self.size
