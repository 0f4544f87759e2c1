"""The plan: the decision of one cycle, as plain data.

`bind`, `evict`, `admit`, `ungate`, `resize`, `suspend` and `resume` are operations. `nominate`, `reserve`, `targets`,
`elect`, `locks` and `facts` are the complete state that the next cycle must find again: the executor writes
the changed parts to Kubernetes objects. `wake_at` is when the decision would change because of time alone.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from maar.model.elastic import Past
from maar.model.facts import Fact
from maar.model.reasons import Reason


class Cause(enum.Enum):
    """Why a pod is evicted or a size changes, for code; the text beside it is for people."""

    UNKNOWN = "unknown"
    """A record from a version without causes."""
    PREEMPTED = "preempted"
    """A job of the same queue takes the room."""
    RECLAIMED = "reclaimed"
    """A job of another queue takes the room back."""
    RELEASED = "released"
    """Only part of the gang runs, and the rest cannot be placed."""
    MIGRATED = "migrated"
    """The worker is created again on another node."""
    SHUFFLED = "shuffled"
    """A plugin wants it to leave its node (the action `shuffle`)."""
    RESIZED = "resized"
    """The pool's algorithm decided."""


class Bind(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Binds a task to a node."""

    task: str
    node: str
    chosen: tuple[tuple[str, str], ...] = ()
    """What counters chose on the node (which devices), by plugin. Only the writer of that choice reads it."""


class Evict(msgspec.Struct, frozen=True):
    """Evicts a task for a job that is shown to fit afterwards."""

    task: str
    beneficiary: str
    reason: str
    cause: Cause = Cause.UNKNOWN
    budgets_apply: bool = True
    """False: its tenant's disruption budgets protect it no more (`tenants: untrusted`)."""
    grace: int | None = None
    """Seconds that it has to stop; `None`: as many as its owner states."""


class Nominate(msgspec.Struct, frozen=True, gc=False):
    """Keeps room on a node for a task until the pods there have left."""

    task: str
    node: str


class Reserve(msgspec.Struct, frozen=True, omit_defaults=True):
    """Reserves room on a node for workers of an elastic job, or pods of a suspended gang, that do not exist yet."""

    job: str
    node: str
    count: int
    beside: int = 0
    """For pods beside the workers of a gang: which of their different shapes (`Elastic.shapes_beside`), from 1."""

    @property
    def place(self) -> str:
        """The node, and for pods beside the workers which: as `Elastic.reserved` states it."""
        return f"{self.node}/{self.beside}" if self.beside else self.node

    @classmethod
    def at(cls, job: str, place: str, count: int) -> Reserve:
        node, _, beside = place.partition("/")
        return cls(job, node, count, int(beside) if beside.isdecimal() else 0)


class Resize(msgspec.Struct, frozen=True):
    """Changes the number of workers of an elastic job."""

    job: str
    before: int
    after: int
    why: str = ""
    past: Past = Past()
    """Written together with the size, for later cycles."""
    cause: Cause = Cause.UNKNOWN
    pool: str = ""
    """The pool whose sizes change with it; empty if they may change at any time."""


class Suspend(msgspec.Struct, frozen=True):
    """Stops an elastic job, which then waits."""

    job: str
    why: str = ""
    past: Past = Past()
    cause: Cause = Cause.UNKNOWN
    pool: str = ""


class Resume(msgspec.Struct, frozen=True):
    """Starts a suspended job with `size` workers."""

    job: str
    size: int
    why: str = ""
    past: Past = Past()
    pool: str = ""


class Target(msgspec.Struct, frozen=True):
    """The state of an elastic job, for its owner: its size, its planned size, and why."""

    job: str
    size: int
    planned: int
    why: str = ""
    pool: str = ""
    """Where its workers are; for metrics, not for the owner."""


class Admit(msgspec.Struct, frozen=True):
    """Lets the operator of a group create its pods."""

    job: str


class Ungate(msgspec.Struct, frozen=True, gc=False):
    """Removes the gate of Volcano's queue admission from a task, which has no other gate."""

    task: str


class Elect(msgspec.Struct, frozen=True):
    """The job for which nodes are being locked."""

    job: str
    since: float
    uid: str = ""
    """The job's own: a later job of the same name is not elected."""
    demand: tuple[tuple[str, int], ...] = ()
    """The resources of the job's minimum when it was elected; without `pods` if it had declared only some of them."""


class Lock(msgspec.Struct, frozen=True):
    """A node that only the elected job, and work that ends in time, may use."""

    node: str
    job: str
    since: float
    uid: str = ""
    """The uid of the job."""


class Wait(msgspec.Struct, frozen=True):
    """A job that did not start, or started only in part, and why."""

    job: str
    reasons: tuple[Reason, ...]
    surplus: tuple[str, ...] = ()
    """Its pending tasks above the missing minimum, for which no new nodes are asked."""


class Deserves(msgspec.Struct, frozen=True):
    """What a queue deserves, for its owner; only resources on which its share depends."""

    queue: str
    amounts: dict[str, int]


class Plan(msgspec.Struct, frozen=True):
    """The decision of one cycle."""

    bind: tuple[Bind, ...] = ()
    nominate: tuple[Nominate, ...] = ()
    evict: tuple[Evict, ...] = ()
    admit: tuple[Admit, ...] = ()
    ungate: tuple[Ungate, ...] = ()
    reserve: tuple[Reserve, ...] = msgspec.field(default=(), name="hold")
    """Room for pods that do not exist yet."""
    resize: tuple[Resize, ...] = ()
    suspend: tuple[Suspend, ...] = ()
    resume: tuple[Resume, ...] = ()
    targets: tuple[Target, ...] = ()
    elect: Elect | None = None
    locks: tuple[Lock, ...] = ()
    facts: tuple[Fact, ...] = ()
    """What plugins and the core remember."""
    wake_at: float | None = None
    waiting: tuple[Wait, ...] = ()
    deserved: tuple[Deserves, ...] = ()
    """What every queue deserves, if a plugin defines it."""

    @property
    def moves(self) -> bool:
        """Whether the plan has any operation; state that stays does not count."""
        pods = self.bind or self.evict or self.ungate
        return bool(pods or self.admit or self.resize or self.suspend or self.resume)

    def lets_go(self, elect: Elect | None, locks: Iterable[Lock]) -> bool:
        """Whether it unlocks nodes or ends an election, which were so before: jobs that were skipped may start then."""
        ended = elect is not None and (self.elect is None or self.elect.job != elect.job)
        return ended or bool({lock.node for lock in locks} - {lock.node for lock in self.locks})

    @property
    def pools(self) -> dict[str, str]:
        """The pool of each job whose size changes, for pools with a rate limit."""
        changes: list[Resize | Suspend | Resume] = [*self.resize, *self.suspend, *self.resume]
        return {change.job: change.pool for change in changes if change.pool}
