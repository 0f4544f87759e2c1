"""The plan: what a cycle decided, as plain data.

`bind`, `evict`, `admit`, `resize`, `suspend` and `resume` are things to do. `nominate`, `hold`, `targets`, `elect` and
`locks` are the whole state that the next cycle must find again: whoever carries a plan out writes what changed of it to
its home on an object. `wake_at` is when time alone would change the answer.
"""

from __future__ import annotations

import enum

import msgspec

from maar.model.elastic import Past
from maar.model.reasons import Reason


class Cause(enum.Enum):
    """What made a pod go, or a size change; the reason beside it is for people."""

    UNKNOWN = "unknown"
    """Recorded before causes were."""
    PREEMPTED = "preempted"
    """A job of the same queue takes the room."""
    RECLAIMED = "reclaimed"
    """A job of another queue takes the room back."""
    RELEASED = "released"
    """The gang runs in part and cannot be completed."""
    MIGRATED = "migrated"
    """The worker is created again on another node."""
    RESIZED = "resized"
    """The pool's algorithm decided."""


class Bind(msgspec.Struct, frozen=True, gc=False):
    """A task gets a node."""

    task: str
    node: str


class Evict(msgspec.Struct, frozen=True):
    """A task goes, for a job that is shown to fit once it has gone."""

    task: str
    beneficiary: str
    reason: str
    cause: Cause = Cause.UNKNOWN


class Nominate(msgspec.Struct, frozen=True, gc=False):
    """Room on a node is kept for a task until what is there has left."""

    task: str
    node: str


class Hold(msgspec.Struct, frozen=True):
    """Room on a node for workers of an elastic job that do not exist yet."""

    job: str
    node: str
    count: int


class Resize(msgspec.Struct, frozen=True):
    """An elastic job changes its number of workers."""

    job: str
    before: int
    after: int
    why: str = ""
    past: Past = Past()
    """What the next cycles must know of the job, written with the size."""
    cause: Cause = Cause.UNKNOWN


class Suspend(msgspec.Struct, frozen=True):
    """An elastic job stops and waits."""

    job: str
    why: str = ""
    past: Past = Past()
    cause: Cause = Cause.UNKNOWN


class Resume(msgspec.Struct, frozen=True):
    """A suspended job starts with that many workers."""

    job: str
    size: int
    why: str = ""
    past: Past = Past()


class Target(msgspec.Struct, frozen=True):
    """How an elastic job stands, for its owner: what it has, what it was planned to have, and why."""

    job: str
    size: int
    planned: int
    why: str = ""
    pool: str = ""
    """Where it has them; not for its owner but for whoever counts."""


class Admit(msgspec.Struct, frozen=True):
    """A group may have its pods created."""

    job: str


class Elect(msgspec.Struct, frozen=True):
    """The job for which nodes are being locked."""

    job: str
    since: float


class Lock(msgspec.Struct, frozen=True):
    """A node that only the elected job (and work that ends in time) may use."""

    node: str
    job: str
    since: float


class Wait(msgspec.Struct, frozen=True):
    """A job that did not start, or not all of it, and why."""

    job: str
    reasons: tuple[Reason, ...]


class Plan(msgspec.Struct, frozen=True):
    """One cycle's decision."""

    bind: tuple[Bind, ...] = ()
    nominate: tuple[Nominate, ...] = ()
    evict: tuple[Evict, ...] = ()
    admit: tuple[Admit, ...] = ()
    hold: tuple[Hold, ...] = ()
    resize: tuple[Resize, ...] = ()
    suspend: tuple[Suspend, ...] = ()
    resume: tuple[Resume, ...] = ()
    targets: tuple[Target, ...] = ()
    elect: Elect | None = None
    locks: tuple[Lock, ...] = ()
    expired: tuple[str, ...] = ()
    """Jobs that lost their election in this cycle because their locks were too old."""
    wake_at: float | None = None
    waiting: tuple[Wait, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether anything is to be done (what stays as it is does not count)."""
        return bool(self.bind or self.evict or self.admit or self.resize or self.suspend or self.resume)
