"""Hooks: the functions that plugins register, and how their answers combine into one.

A plugin registers functions while a session opens (`Register`, one method for each hook). Actions ask the combined
question (`Hooks`). The rules of combination:

    orders      lexicographic: the first plugin that distinguishes two decides; then creation time, then the key
    votes       a reject refuses at once; a tier with a permit accepts; if all abstain, the answer is accept
    all         every plugin must agree (ready, allocatable, preemptive)
    any         one plugin is enough (overused, beyond evictions)
    first       the first failure is the answer (valid, predicates: a node's cause is the first refusal)
    sums        scores are added
    victims     the intersection of all votes that are not abstentions, over all tiers; it may be empty
    departures  the union inside a tier; the first tier with a departure decides

Orders are keys, not comparisons: a plugin maps a job to a comparable value, smaller first. `by_comparison` adapts a
plugin that is written as a comparison.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cmp_to_key
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from maar.model.jobs import Job
from maar.model.queues import Queue
from maar.model.reasons import Reason, Refusal
from maar.model.resources import Floats, Ints, Mask
from maar.session.state import ReservedRoom
from maar.session.subgroups import Part

if TYPE_CHECKING:
    from maar.session.counters import Counter

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class Vote(enum.IntEnum):
    """The opinion of one plugin."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class Claim(msgspec.Struct, frozen=True):
    """A request for room: the job, and whether it preempts or reclaims. Voters on victims receive it."""

    job: Job
    shape: int
    """The requested shape, as a number in the shape table."""
    across_queues: bool
    """True: reclaim. False: preempt."""
    priority: int = 0
    """The priority of the requested task; it matters only inside one job."""
    whole: bool = False
    """The tasks are the minimum of a gang: they leave as one, like a pod, and what their queue has before decides."""
    together: bool = True
    """True: judge the tasks as all leaving, in the given order. False: judge each task as if it left alone."""


class Limit(msgspec.Struct, frozen=True):
    """How many more tasks of a shape each node takes beside the placed pods (affinity, spread, ports)."""

    room: Ints
    """How many more tasks each node takes, counted for each node alone."""
    coupled: bool
    """Whether a task on one node changes the room on another; tasks are then placed one at a time."""
    causes: tuple[Refusal, ...] = ()
    local: bool = False
    """Whether tasks on other nodes never change the room of a node: searches for victims then look at it only once."""
    seeds: Ints | None = None
    """The domain of each node (-1: none), if the first pod decides the domain of all."""


class Departure(msgspec.Struct, frozen=True):
    """Running tasks of one job that a plugin wants to leave together, and why. It needs no beneficiary."""

    tasks: tuple[int, ...]
    reason: str
    """For the owner of the job: what evicts it."""
    room: tuple[ReservedRoom, ...] = ()
    """Room that was proved to take them: reserved for the pods that are created in their place."""
    until: float = 0.0
    """The end of the reservation."""


class Excess(NamedTuple):
    """What a queue has of a resource above the amount that it deserves."""

    queue: int
    """The queue of the tasks that may leave, or a queue above it."""
    dim: int
    over: int
    due: int
    """What the queue deserves, above 0."""


class SharedRoom(msgspec.Struct, frozen=True):
    """Nodes with a common limit: how many more tasks of one shape of one job they take together."""

    refusal: Refusal
    """The nodes, and why they take no more."""
    count: int

    @property
    def nodes(self) -> Mask:
        return self.refusal.nodes


class GangRules(msgspec.Struct, frozen=True):
    """What the gang plugin defines: minimums, and whether whole gangs may be victims."""

    minimum: Callable[[Job], int]
    role_minimums: Callable[[Job], Mapping[int, int]]
    """Role row to its minimum; empty if role minimums are ignored."""
    whole_for_preempt: bool
    whole_for_reclaim: bool
    grace: Callable[[Job], float] | None = None
    """Seconds after which a gang leaves that lacks part of its minimum because a pod failed; negative: never."""


class Entry(Generic[F]):
    """One registered function, with its plugin and tier."""

    __slots__ = ("alike", "alone", "call", "plugin", "tier", "words")

    def __init__(
        self, tier: int, plugin: str, call: F, words: str = "", *, alike: bool = False, alone: bool = False
    ) -> None:
        self.tier = tier
        self.plugin = plugin
        self.call = call
        self.words = words or f"by plugin `{plugin}`"
        """For an order: what it means that it puts one first."""
        self.alike = alike
        """For a vote on victims: see `Register.reclaimable`."""
        self.alone = alone
        """For a vote on victims: see `Register.preemptable`."""


JobKey = Callable[[Job], Any]
QueueKey = Callable[[Queue, "Job | None"], Any]
"""With the job that the queue would place next, if it is known."""
JobVote = Callable[[Job], "Vote | Reason"]
Victims = Callable[[Claim, Ints], "Mask | None"]
Allowance = Callable[[Job, int, int], int]
WhyNot = Callable[[Job, int, int], Reason]
RowScore = Callable[[int, Ints | slice], Floats]
Departures = Callable[[], Iterable[Departure]]
SubgroupDomains = Callable[[Job, Part, "Mask | None"], "Sequence[Sequence[Mask]] | None"]
Share = Sequence["int | None"]
"""What a queue deserves of each resource; `None` where its share does not depend on the resource."""


class Hooks:
    """All registered functions of one session, and the combined answers."""

    def __init__(self) -> None:
        self.job_order: list[Entry[JobKey]] = []
        self.job_ties: list[Entry[JobKey]] = []
        """After all of `job_order`."""
        self.queue_order: list[Entry[QueueKey]] = []
        self.queues_by_job = False
        """Whether the order of queues depends on the job that each would place next."""
        self.namespace_order: list[Entry[Callable[[str], Any]]] = []
        self.task_order: list[Entry[Callable[[Ints], Ints | None]]] = []
        self.victim_queue_order: list[Entry[Callable[[Queue, Job], Any]]] = []
        self.job_valid: list[Entry[Callable[[Job], Reason | None]]] = []
        self.job_ready: list[Entry[Callable[[Job], bool]]] = []
        self.job_nominated: list[Entry[Callable[[Job], Vote]]] = []
        self.job_starving: list[Entry[Callable[[Job], bool]]] = []
        self.job_enqueueable: list[Entry[JobVote]] = []
        self.beyond_evictions: list[Entry[Callable[[Job], bool]]] = []
        self.job_enqueued: list[Entry[Callable[[Job], None]]] = []
        self.allocatable: list[tuple[Entry[Allowance], WhyNot]] = []
        self.overused: list[tuple[Entry[Callable[[Queue], bool]], Callable[[Queue], Reason]]] = []
        self.deserved: list[Entry[Callable[[int], Share]]] = []
        self.excess: list[Entry[Callable[[int, Job], Sequence[Excess]]]] = []
        self.preemptive: list[Entry[Callable[[Job, int, int], bool]]] = []
        self.preemptable: list[Entry[Victims]] = []
        self.reclaimable: list[Entry[Victims]] = []
        self.predicates: list[Entry[Callable[[int], Iterable[Refusal]]]] = []
        self.counters: list[tuple[str, Counter]] = []
        """By plugin."""
        self.scores: list[Entry[RowScore]] = []
        self.cluster_scores: list[Entry[Callable[[int], Floats | None]]] = []
        self.job_scores: list[Entry[Callable[[Job], Floats | None]]] = []
        self.bundles: list[Entry[Callable[[Job, Ints], Ints | None]]] = []
        self.bundle_scores: list[Entry[Callable[[Job, Ints], Floats | None]]] = []
        self.job_nodes: list[Entry[Callable[[Job], Refusal | None]]] = []
        self.fixed_nodes: list[Entry[Callable[[Job], Refusal | None]]] = []
        """The part of `job_nodes` that placed pods and locks do not change."""
        self.shared_rooms: list[Entry[Callable[[Job, int], Sequence[SharedRoom]]]] = []
        self.domains: list[Entry[Callable[[Job], Sequence[Sequence[Mask]] | None]]] = []
        self.subgroup_domains: list[Entry[SubgroupDomains]] = []
        self.target_job: list[Entry[Callable[[Sequence[Job]], Job | None]]] = []
        self.lock_nodes: list[Entry[Callable[[Job], None]]] = []
        self.victim_tasks: list[Entry[Departures]] = []
        self.victim_tasks_of_preempt: list[Entry[Departures]] = []
        """Those of `victim_tasks` that the action `preempt` asks too."""
        self.close: list[Entry[Callable[[], None]]] = []
        self.gang: GangRules | None = None

    def job_key(self, job: Job) -> tuple[Any, ...]:
        """The sort key of a job: smaller goes first."""
        return (
            *(e.call(job) for e in self.job_order),
            *(e.call(job) for e in self.job_ties),
            job.created,
            job.key,
        )

    def queue_key(self, queue: Queue, job: Job | None = None) -> tuple[Any, ...]:
        """The sort key of a queue, with the job that it would place next."""
        return (*(e.call(queue, job) for e in self.queue_order), queue.created, queue.name)

    def victim_places(self, queues: Sequence[Queue], claimant: Job) -> list[int]:
        """The place of each queue among those that lose tasks to a job: smaller loses first, equal queues share it.

        Plugins that order victim queues decide. Then the queue that comes last for new tasks loses first.
        """
        near = [tuple(e.call(queue, claimant) for e in self.victim_queue_order) for queue in queues]
        turn = [tuple(e.call(queue, None) for e in self.queue_order) for queue in queues]
        order = sorted(range(len(queues)), key=turn.__getitem__, reverse=True)
        order.sort(key=near.__getitem__)
        places = [0] * len(queues)
        for before, after in pairwise(order):
            places[after] = places[before] + ((near[before], turn[before]) != (near[after], turn[after]))
        return places

    def namespace_key(self, namespace: str) -> tuple[Any, ...]:
        """The sort key of a namespace; without a plugin that orders namespaces all are equal."""
        return tuple(e.call(namespace) for e in self.namespace_order)

    def sort_tasks(self, tasks: Ints) -> Ints:
        """Tasks of one job in the order of placement: by plugins, then by number."""
        if len(tasks) < 2:
            return tasks
        keys = [key for e in self.task_order if (key := e.call(tasks)) is not None]
        if not keys:
            return tasks
        return np.asarray(tasks[np.lexsort((tasks, *reversed(keys)))])

    def bundled(self, job: Job, tasks: Ints) -> Ints | None:
        """A number for each task by the first plugin that bundles the tasks of the job; `None`: no plugin does."""
        return next((found for e in self.bundles if (found := e.call(job, tasks)) is not None), None)

    def is_valid(self, job: Job) -> Reason | None:
        """The first objection of a plugin, or `None`."""
        for entry in self.job_valid:
            reason = entry.call(job)
            if reason is not None:
                return reason
        return None

    def is_ready(self, job: Job) -> bool:
        """Whether all plugins agree that the job may be bound."""
        return all(e.call(job) for e in self.job_ready)

    def is_nominated(self, job: Job) -> bool:
        """Whether the bound and nominated tasks are enough to justify evictions."""
        accepted, _ = combine_votes((e.tier, e.call(job)) for e in self.job_nominated)
        return accepted

    def is_starving(self, job: Job) -> bool:
        """Whether all plugins of the first tier with an opinion say that the job starves."""
        if not self.job_starving:
            return False
        tier = self.job_starving[0].tier
        return all(e.call(job) for e in self.job_starving if e.tier == tier)

    def is_beyond_evictions(self, job: Job) -> bool:
        """Whether one plugin refuses to admit a group for a cause that no eviction changes."""
        return any(e.call(job) for e in self.beyond_evictions)

    def allowed(self, job: Job, shape: int, wanted: int) -> int:
        """How many more tasks of a shape the job's queue may have: the minimum over all plugins."""
        for entry, _ in self.allocatable:
            wanted = min(wanted, entry.call(job, shape, wanted))
            if wanted <= 0:
                return 0
        return wanted

    def refusals(self, job: Job, shape: int, wanted: int) -> list[Reason]:
        """The reasons why the queue may not have `wanted` more tasks."""
        return [why(job, shape, wanted) for e, why in self.allocatable if e.call(job, shape, wanted) < wanted]

    def is_overused(self, queue: Queue) -> Reason | None:
        """The reason of the first plugin that calls the queue overused, or `None`."""
        for entry, why in self.overused:
            if entry.call(queue):
                return why(queue)
        return None

    def may_take(self, job: Job, shape: int, count: int) -> bool:
        """Whether all plugins agree that the job's queue may take room from other queues."""
        return all(e.call(job, shape, count) for e in self.preemptive)

    def victims(self, claim: Claim, tasks: Ints) -> Mask:
        """Which tasks may be evicted: every plugin that does not abstain agrees. Without a vote, none."""
        votes = self._votes(self.reclaimable if claim.across_queues else self.preemptable, claim, tasks)
        return np.logical_and.reduce(votes) if votes else np.zeros(len(tasks), dtype=np.bool_)

    def victims_again(self, claim: Claim, tasks: Ints) -> Mask:
        """The same for candidates, to whose eviction every plugin has agreed alone, before others left."""
        voters = self.reclaimable if claim.across_queues else self.preemptable
        asked = [entry for entry in voters if not entry.alone]
        if len(asked) == len(voters):
            return self.victims(claim, tasks)
        votes = self._votes(asked, claim, tasks)
        return np.logical_and.reduce(votes) if votes else np.ones(len(tasks), dtype=np.bool_)

    def agree_alone(self, across_queues: bool) -> bool:
        """Whether candidates may leave in any order, as all voters judge each task alone."""
        voters = self.reclaimable if across_queues else self.preemptable
        return bool(voters) and all(entry.alone for entry in voters)

    def victims_by_kind(self, claim: Claim, tasks: Ints) -> Mask:
        """The same by those voters alone that judge gangs by their queues and pods."""
        votes = self._votes([entry for entry in self.reclaimable if entry.alike], claim, tasks)
        return np.logical_and.reduce(votes) if votes else np.ones(len(tasks), dtype=np.bool_)

    def _votes(self, voters: Sequence[Entry[Victims]], claim: Claim, tasks: Ints) -> list[Mask]:
        return [vote for entry in voters if (vote := entry.call(claim, tasks)) is not None]


def combine_votes(votes: Iterable[tuple[int, Vote | Reason]]) -> tuple[bool, Vote | Reason]:
    """Whether the votes accept, and the vote that decided (ABSTAIN if none did)."""
    permitted_in: int | None = None
    for tier, vote in votes:
        if permitted_in is not None and tier != permitted_in:
            break
        if isinstance(vote, Reason) or vote is Vote.REJECT:
            return False, vote
        if vote is Vote.PERMIT:
            permitted_in = tier
    return True, Vote.ABSTAIN if permitted_in is None else Vote.PERMIT


def by_comparison(compare: Callable[[T, T], int]) -> Callable[[T], Any]:
    """A sort key for an order written as a comparison (negative: the left goes first)."""
    return cmp_to_key(compare)
