"""The minimum of a gang: what it needs to start, what it lacks, what it may lose, and which tasks fill the gap.

A gang needs a number of tasks, numbers of tasks of some roles, and numbers of whole subgroups. This is arithmetic on
counts: the caller says which tasks count (running ones, also nominated ones, all that exist). A role is its name, or
its row in the job table. A session binds this to its state in `session.gangs`, under the rules of the gang plugin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from maar.model.jobs import Job, SubgroupPolicy
from maar.model.resources import Ints, Mask
from maar.model.tasks import READY, Status, Subgroup, Task

if TYPE_CHECKING:
    from maar.model.snapshot import Snapshot

R = TypeVar("R", bound=Hashable)
"""A role."""

NONE: Ints = np.zeros(0, dtype=np.int64)


class Division(NamedTuple):
    """The subgroups of a gang, numbered, and what their policies ask for."""

    policy: Ints
    """The policy of each subgroup."""
    size: Ints
    """How many tasks each subgroup starts with."""
    sizes: Ints
    """The same by policy, also for subgroups that do not exist yet."""
    least: Ints
    """How many subgroups of each policy start together."""

    @classmethod
    def by(cls, policies: Iterable[SubgroupPolicy], subgroups: Iterable[Subgroup]) -> Division:
        columns = zip(*((p.size, p.least) for p in policies), strict=True)
        sizes, least = (np.array(column, dtype=np.int64) for column in columns)
        policy = np.array([subgroup.policy for subgroup in subgroups], dtype=np.int64)
        return cls(policy, sizes[policy], sizes, least)

    def complete(self, have: Ints) -> Ints:
        """How many subgroups of each policy have their size, from the number of tasks in each subgroup."""
        return np.bincount(self.policy[have >= self.size], minlength=len(self.least)).astype(np.int64)

    def lack(self, have: Ints) -> list[int]:
        """How many more subgroups of each policy must be complete."""
        lacking: list[int] = np.maximum(self.least - self.complete(have), 0).tolist()
        return lacking

    def nearest(self, have: Ints, policy: int, count: int) -> list[int]:
        """The incomplete subgroups of a policy that lack the fewest tasks: at most `count`."""
        lacking = self.size - have
        open_ = np.flatnonzero((self.policy == policy) & (lacking > 0))
        nearest: list[int] = open_[np.argsort(lacking[open_], kind="stable")][:count].tolist()
        return nearest

    def pods_lacking(self, have: Ints) -> int:
        """How many tasks complete the least number of subgroups, at best."""
        lacking = 0
        for policy, count in enumerate(self.lack(have)):
            if count:
                nearest, size = self.nearest(have, policy, count), int(self.sizes[policy])
                lacking += count * size - int(have[nearest].sum())
        return lacking


class Have(NamedTuple, Generic[R]):
    """How many tasks of a gang count."""

    pods: int
    roles: Mapping[R, int]
    """Pods by role, at least of the roles that have a minimum."""
    subgroups: Ints = NONE
    """Pods of each subgroup, as numbered in the division."""


class Lack(NamedTuple, Generic[R]):
    """What a gang lacks of its minimum."""

    total: int
    """How many tasks, at best: one task may count for the gang, its role and its subgroup."""
    pods: int
    """How many tasks of any kind."""
    roles: Mapping[R, int]
    """How many tasks of each role that has too few."""
    policies: Sequence[int] = ()
    """How many more subgroups of each policy must be complete."""


NO_ROLES: Mapping[Any, int] = MappingProxyType({})
NOTHING: Lack[Any] = Lack(0, 0, NO_ROLES)


def lack_of_pods(count: int) -> Lack[Any]:
    """What a gang without minimums of roles and without subgroups lacks."""
    return Lack(count, count, NO_ROLES) if count > 0 else NOTHING


class Minimum(NamedTuple, Generic[R]):
    """What a gang needs to start."""

    pods: int
    roles: Mapping[R, int]
    division: Division | None = None

    def lack(self, have: Have[R]) -> Lack[R]:
        pods = max(self.pods - have.pods, 0)
        roles = {role: n for role, least in self.roles.items() if (n := least - have.roles[role]) > 0}
        total = max(pods, sum(roles.values()))
        if self.division is None:
            return Lack(total, pods, roles)
        total = max(total, self.division.pods_lacking(have.subgroups))
        return Lack(total, pods, roles, self.division.lack(have.subgroups))

    def spare(self, have: Have[R]) -> Spare[R]:
        return Spare(have.pods - self.pods, {role: have.roles[role] - least for role, least in self.roles.items()})


class Spare(Generic[R]):
    """What a gang may lose, task by task: tasks above its minimum and above those of their roles.

    Subgroups are not known here: `session.eviction.victims.Surplus` adds them.
    """

    __slots__ = ("pods", "roles")

    def __init__(self, pods: int, roles: dict[R, int]) -> None:
        self.pods = pods
        self.roles = roles

    def covers(self, going: Mapping[R, int]) -> bool:
        """Whether these numbers of tasks by role may leave together."""
        return sum(going.values()) <= self.pods and all(n <= self.roles.get(role, n) for role, n in going.items())

    def take(self, going: Mapping[R, int]) -> bool:
        """The same; if they may leave, they count as gone."""
        if not self.covers(going):
            return False
        for role, n in going.items():
            self.pods -= n
            if role in self.roles:
                self.roles[role] -= n
        return True


class Gap(Generic[R]):
    """What is still lacking while tasks are chosen: first of roles, then of any role."""

    __slots__ = ("pods", "roles")

    def __init__(self, pods: int, roles: Mapping[R, int]) -> None:
        self.pods = pods
        self.roles = dict(roles)

    def of_role(self, role: R) -> int:
        return max(self.roles.get(role, 0), 0)

    def of_any(self, _: R) -> int:
        return max(self.pods, 0)

    def fill(self, role: R, count: int) -> None:
        self.pods -= count
        if role in self.roles:
            self.roles[role] -= count

    @property
    def lacks_roles(self) -> bool:
        return bool(self.roles) and any(n > 0 for n in self.roles.values())

    @property
    def is_filled(self) -> bool:
        return self.pods <= 0 and not self.lacks_roles


def spread(
    gap: Gap[R], roles: Sequence[R], sizes: Sequence[int], take: Callable[[int, int], int] | None = None
) -> list[int]:
    """How many tasks of each group fill a gap: role minimums first, then any group, in order.

    The groups have these roles and sizes. `take` is asked for tasks of a group, by its number, and returns how many it
    gives; then nothing more is asked for if the groups of a role gave too few. Without it, each group gives all.
    """
    counts = [0] * len(sizes)
    for wanted in (gap.of_role, gap.of_any):
        for i, role in enumerate(roles):
            count = min(wanted(role), sizes[i] - counts[i])
            if count > 0:
                given = count if take is None else take(i, count)
                gap.fill(role, given)
                counts[i] += given
        if take is not None and gap.lacks_roles:
            break
    return counts


def needed(lack: Lack[R], roles: Sequence[R], sizes: Sequence[int]) -> list[int]:
    """How many tasks of each group a gang cannot start without: what all other groups together cannot give."""
    of_role, total = Counter[R](), sum(sizes)
    for role, size in zip(roles, sizes, strict=True):
        of_role[role] += size
    return [
        max(lack.roles.get(role, 0) - (of_role[role] - size), lack.total - (total - size), 0)
        for role, size in zip(roles, sizes, strict=True)
    ]


def has_minimum(job: Job, tasks: Sequence[Task]) -> bool:
    """Whether these tasks of a job are its minimum, and at least one."""
    return not lacking(job, tasks)


def lacking(job: Job, tasks: Sequence[Task]) -> int:
    """How many more tasks a job needs, at best, for its minimum and for at least one, beside these of its tasks."""
    pods = max(max(job.min_member, 1) - len(tasks), 0)
    return max(pods, lack_of(job, tasks).total) if job.role_min or job.subgroups else pods


def lack_of(job: Job, tasks: Sequence[Task]) -> Lack[str]:
    """What a job lacks beside these of its tasks."""
    division, counts = _divided(job, tasks, ())
    return Minimum(job.min_member, job.role_minimums, division).lack(
        Have(len(tasks), Counter(task.role for task in tasks), counts)
    )


def choose(job: Job, there: Sequence[Task], waiting: Sequence[Task]) -> list[Task]:
    """The waiting tasks that complete the minimum of a job, and at least one task, beside those that are there."""
    lack = lack_of(job, there)
    gap, chosen = Gap(max(lack.pods, 0 if there else 1), lack.roles), _completing(job, there, waiting)
    for task in chosen:
        gap.fill(task.role, 1)
    taken = {task.key for task in chosen}
    rest = [task for task in waiting if task.key not in taken]
    counts = spread(gap, [task.role for task in rest], [1] * len(rest))
    return [*chosen, *(task for task, count in zip(rest, counts, strict=True) if count)]


def _completing(job: Job, there: Sequence[Task], waiting: Sequence[Task]) -> list[Task]:
    """The waiting tasks that complete the least number of subgroups: those that lack the fewest tasks."""
    chosen: list[Task] = []
    division, have = _divided(job, there, waiting)
    if division is None:
        return chosen
    of = _numbered([*there, *waiting])
    for policy, count in enumerate(division.lack(have)):
        for number in division.nearest(have, policy, count):
            tasks = [task for task in waiting if task.subgroup is not None and of[task.subgroup] == number]
            chosen.extend(tasks[: int(division.size[number] - have[number])])
    return chosen


def _divided(job: Job, there: Sequence[Task], waiting: Sequence[Task]) -> tuple[Division | None, Ints]:
    """The subgroups of tasks, and how many tasks of each are there."""
    if not job.subgroups:
        return None, NONE
    counts = Counter(task.subgroup for task in there)
    known = _numbered([*there, *waiting])
    return Division.by(job.subgroups, known), np.array([counts[subgroup] for subgroup in known], dtype=np.int64)


def _numbered(tasks: Iterable[Task]) -> dict[Subgroup, int]:
    found = dict.fromkeys(task.subgroup for task in tasks if task.subgroup is not None)
    return {subgroup: i for i, subgroup in enumerate(found)}


def with_minimum(snapshot: Snapshot, *, nominated: bool = False) -> Mask:
    """The jobs that run with their minimum, and at least one task; or, if nominated room counts, would do so."""
    jobs = snapshot.jobs
    have, of_role = jobs.ready, jobs.role_ready
    statuses = (*READY, Status.NOMINATED) if nominated else READY
    if nominated:
        have, of_role = have + jobs.nominated, of_role + jobs.role_nominated
    found: Mask = have >= np.maximum(jobs.minimum, 1)
    found[jobs.role_job[of_role < jobs.role_min]] = False
    for row in jobs.divided:
        if found[row]:
            found[row] = has_minimum(jobs.jobs[row], [t for t in snapshot.tasks_of(row) if t.status in statuses])
    return found
