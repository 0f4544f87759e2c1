"""What a plugin sees while a session opens: one method for each hook.

If the configuration disables a hook for a plugin (`enableJobOrder: false`), the method registers nothing. Plugins
never read these flags themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from maar.config.flags import FLAGS
from maar.model.codes import Code
from maar.model.jobs import Job
from maar.model.queues import Queue
from maar.model.reasons import Reason, Refusal
from maar.model.resources import UNLIMITED, Floats, Ints, Mask
from maar.session.counters import Counter, Function
from maar.session.hooks import (
    Allowance,
    Departures,
    Entry,
    Excess,
    GangRules,
    Hooks,
    JobKey,
    JobVote,
    Limit,
    QueueKey,
    RowScore,
    Share,
    SharedRoom,
    SubgroupDomains,
    Victims,
    Vote,
    WhyNot,
)
from maar.session.memory import Memory, Remember, Remembered

T = TypeVar("T", bound=msgspec.Struct)


class Register:
    """Registers the functions of one plugin in the hooks of a session."""

    def __init__(
        self, hooks: Hooks, plugin: str, tier: int, flags: dict[str, bool], memory: Memory | None = None
    ) -> None:
        self._hooks = hooks
        self._memory = memory
        self.plugin = plugin
        self.tier = tier
        self.flags = flags
        """The flags in the configuration, by the names in `FLAGS`; a flag that is not set is missing."""

    def _add(
        self,
        point: str,
        to: list[Entry[Any]],
        call: Callable[..., Any],
        words: str = "",
        *,
        alike: bool = False,
        alone: bool = False,
    ) -> None:
        if self.flags.get(FLAGS.get(point, point), True):
            to.append(Entry(self.tier, self.plugin, call, words, alike=alike, alone=alone))

    def remember(self, what: Remember[T]) -> Remembered[T]:
        """What the plugin remembered in earlier cycles, and a way to remember more: `maar.session.memory`."""
        assert self._memory is not None, "this session has no memory"
        return self._memory.declare(self.plugin, what)

    def job_order(self, key: JobKey, words: str = "") -> None:
        """Smaller keys go first. `words` say why to the owner of a job that goes later: `higher priority`."""
        self._add("job_order", self._hooks.job_order, key, words)

    def job_tie(self, key: JobKey, words: str = "") -> None:
        """The same between jobs that no plugin's `job_order` distinguishes."""
        self._add("job_order", self._hooks.job_ties, key, words)

    def queue_order(self, key: Callable[[Queue], Any], words: str = "") -> None:
        """Smaller keys go first. During a cycle a queue's key may only grow."""
        self._add("queue_order", self._hooks.queue_order, lambda queue, _: key(queue), words)

    def queue_order_by_job(self, key: QueueKey, words: str = "") -> None:
        """The same, also by the job that the queue would place next. The key for one job may only grow."""
        before = len(self._hooks.queue_order)
        self._add("queue_order", self._hooks.queue_order, key, words)
        self._hooks.queues_by_job |= len(self._hooks.queue_order) > before

    def namespace_order(self, key: Callable[[str], Any], words: str = "") -> None:
        """Smaller keys go first; namespaces are ordered before queues."""
        self._add("namespace_order", self._hooks.namespace_order, key, words)

    def task_order(self, keys: Callable[[Ints], Ints | None]) -> None:
        """A key for each given task of one job; smaller first. `None`: all are equal."""
        self._add("task_order", self._hooks.task_order, keys)

    def victim_queue_order(self, key: Callable[[Queue, Job], Any]) -> None:
        """The order in which queues give up tasks for a job."""
        self._add("victim_queue_order", self._hooks.victim_queue_order, key)

    def job_valid(self, check: Callable[[Job], Reason | None]) -> None:
        """Why a job cannot be considered yet, or `None`."""
        self._add("job_valid", self._hooks.job_valid, check)

    def job_ready(self, check: Callable[[Job], bool]) -> None:
        """Whether the placed tasks are enough to bind."""
        self._add("job_ready", self._hooks.job_ready, check)

    def job_nominated(self, vote: Callable[[Job], Vote]) -> None:
        """Whether the placed and nominated tasks are enough to justify evictions."""
        self._add("job_nominated", self._hooks.job_nominated, vote)

    def job_starving(self, check: Callable[[Job], bool]) -> None:
        """Whether the job may ask for the room of other jobs."""
        self._add("job_starving", self._hooks.job_starving, check)

    def job_enqueueable(self, vote: JobVote) -> None:
        """Whether a pending group may be admitted; a `Reason` is a reject."""
        self._add("job_enqueueable", self._hooks.job_enqueueable, vote)

    def beyond_evictions(self, check: Callable[[Job], bool]) -> None:
        """Whether the plugin refuses to admit a group for a cause that no eviction changes."""
        self._add("beyond_evictions", self._hooks.beyond_evictions, check)

    def job_enqueued(self, note: Callable[[Job], None]) -> None:
        """Called when a group is admitted in this session."""
        self._add("job_enqueued", self._hooks.job_enqueued, note)

    def allocatable(self, count: Allowance, why: WhyNot) -> None:
        """How many of the wanted tasks of a shape the job's queue may have, and why not all.

        When others of the queue leave, they are never fewer.
        """
        if self.flags.get("allocatable", True):
            self._hooks.allocatable.append((Entry(self.tier, self.plugin, count), why))

    def overused(self, check: Callable[[Queue], bool], why: Callable[[Queue], Reason]) -> None:
        """Whether a queue gets nothing more in this cycle, and why."""
        if self.flags.get("overused", True):
            self._hooks.overused.append((Entry(self.tier, self.plugin, check), why))

    def deserved(self, share: Callable[[int], Share]) -> None:
        """What a queue (by number) deserves: protections that tenants state are limited to it."""
        self._add("deserved", self._hooks.deserved, share)

    def excess(self, above: Callable[[int, Job], Sequence[Excess]]) -> None:
        """What a queue (by number) and those above it have beyond their shares, if it may lose tasks to a job."""
        self._add("excess", self._hooks.excess, above)

    def preemptive(self, check: Callable[[Job, int, int], bool]) -> None:
        """Whether the job's queue may take room from other queues for a number of tasks of a shape.

        If not, then not for more of them either.
        """
        self._add("preemptive", self._hooks.preemptive, check)

    def preemptable(self, vote: Victims, *, alone: bool = False) -> None:
        """Which tasks may be evicted for a job of the same queue; `None` abstains.

        `alone`: it judges each task alone, whatever else leaves or has left. It is asked once, not again before each
        eviction.
        """
        self._add("preemptable", self._hooks.preemptable, vote, alone=alone)

    def reclaimable(self, vote: Victims, *, alike: bool = False, alone: bool = False) -> None:
        """Which tasks may be evicted for a job of another queue; `None` abstains. `alone` as for `preemptable`.

        `alike`: the vote on a gang depends on its queue, and on how many of which pods it has. If it is refused, so are
        gangs of its queue with as many or more of the same pods, also after others have left. They are not asked.
        """
        self._add("reclaimable", self._hooks.reclaimable, vote, alike=alike, alone=alone)

    def predicate(self, refuse: Callable[[int], Iterable[Refusal]]) -> None:
        """The nodes that a shape may not use, by cause; placed pods must not affect the answer."""
        self._add("predicate", self._hooks.predicates, refuse)

    def limit(self, limit: Callable[[int, bool], Limit | None], applies: Callable[[int], bool] | None = None) -> None:
        """How placed pods limit a shape, now or (True) after releasing pods are gone; `None`: no limit.

        `applies` says which shapes it may ever limit; by default all.
        """
        self.counter(Function(limit, applies))

    def counter(self, counter: Counter, point: str = "predicate") -> None:
        """Something besides resources that limits how many tasks fit on nodes."""
        if self.flags.get(FLAGS.get(point, point), True):
            self._hooks.counters.append((self.plugin, counter))

    def one_by_one(self, nodes: int, applies: Callable[[int], bool] | None = None) -> None:
        """Place pods one by one, because each placement changes scores; `applies`: which shapes, by default all."""
        limit = Limit(np.full(nodes, UNLIMITED, dtype=np.int64), coupled=True)
        self.counter(Function(lambda shape, later: limit, applies), "score")

    def score(self, score: RowScore) -> None:
        """The score of each node for a shape; called again only for rows that changed."""
        self._add("score", self._hooks.scores, score)

    def cluster_score(self, score: Callable[[int], Floats | None]) -> None:
        """A score in which one row depends on others; called every time, `None` adds nothing."""
        self._add("score", self._hooks.cluster_scores, score)

    def job_score(self, score: Callable[[Job], Floats | None]) -> None:
        """The score of each node for a job, whatever its shapes; `None` adds nothing."""
        self._add("score", self._hooks.job_scores, score)

    def bundles(self, bundles: Callable[[Job, Ints], Ints | None]) -> None:
        """A number for each given task of a job: tasks are placed bundle by bundle, in the order of tasks."""
        self._add("bundles", self._hooks.bundles, bundles)

    def bundle_score(self, score: Callable[[Job, Ints], Floats | None]) -> None:
        """The score of each node for tasks of one bundle; `None` adds nothing."""
        self._add("score", self._hooks.bundle_scores, score)

    def job_nodes(self, refuse: Callable[[Job], Refusal | None], fixed: bool = False) -> None:
        """The nodes that a job may not use; `fixed` if placed pods and locks never change the answer."""
        self._add("job_nodes", self._hooks.job_nodes, refuse)
        if fixed:
            self._add("job_nodes", self._hooks.fixed_nodes, refuse)

    def shared_rooms(self, rooms: Callable[[Job, int], Sequence[SharedRoom]]) -> None:
        """How many more tasks of a shape of a job some nodes take together, in the current state."""
        self._add("predicate", self._hooks.shared_rooms, rooms)

    def domains(self, domains: Callable[[Job], Sequence[Sequence[Mask]] | None]) -> None:
        """The domains in which a whole gang must fit: lists to try in turn, the closest first."""
        self._add("domains", self._hooks.domains, domains)

    def subgroup_domains(self, domains: SubgroupDomains) -> None:
        """The same for a part of a subgroup, inside some nodes."""
        self._add("domains", self._hooks.subgroup_domains, domains)

    def target_job(self, choose: Callable[[Sequence[Job]], Job | None]) -> None:
        """The waiting job for which nodes should be locked."""
        self._add("target_job", self._hooks.target_job, choose)

    def lock_nodes(self, lock: Callable[[Job], None]) -> None:
        """Lock one more node for the elected job."""
        self._add("lock_nodes", self._hooks.lock_nodes, lock)

    def victim_tasks(self, name: Departures, *, in_preempt: bool = False) -> None:
        """Running tasks that should leave, for the action `shuffle`; with `in_preempt` also for `preempt`.

        Each departure must be a whole gang or surplus of one (`session.eviction.departures.unit_for`); others stay.
        """
        self._add("victim_tasks", self._hooks.victim_tasks, name)
        if in_preempt:
            self._add("victim_tasks", self._hooks.victim_tasks_of_preempt, name)

    def gang(self, rules: GangRules) -> None:
        """Minimums, and whether whole gangs may be evicted."""
        self._hooks.gang = rules

    def close(self, call: Callable[[], None]) -> None:
        self._add("close", self._hooks.close, call)


def node_by_node(fits: Callable[[int, int], Refusal | None], nodes: int) -> Callable[[int], Iterable[Refusal]]:
    """A predicate written for one node at a time: `fits(shape, row)` returns a refusal without nodes, or `None`."""

    def refuse(shape: int) -> Iterable[Refusal]:
        rows: dict[tuple[str, Code, str], list[int]] = {}
        for row in range(nodes):
            if (found := fits(shape, row)) is not None:
                rows.setdefault((found.plugin, found.code, found.words), []).append(row)
        for (plugin, code, words), refused in rows.items():
            mask = np.zeros(nodes, dtype=np.bool_)
            mask[refused] = True
            yield Refusal(plugin, code, words, mask)

    return refuse


def score_by_node(score: Callable[[int, int], float], nodes: int) -> RowScore:
    """A score written for one node at a time."""

    def scores(shape: int, rows: Ints | slice) -> Floats:
        chosen = range(*rows.indices(nodes)) if isinstance(rows, slice) else rows.tolist()
        return np.array([score(shape, row) for row in chosen], dtype=np.float64)

    return scores
