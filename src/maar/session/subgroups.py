"""Subgroups of a job: tasks that start together, inside a gang.

A policy divides some tasks of a job into subgroups (`SubgroupPolicy`). A subgroup starts with its size or not at all,
and the job starts with the least number of subgroups. Then further subgroups start one by one, each of them whole.
Tasks above the size of their subgroup, and tasks in no subgroup, start one by one too.

This module counts subgroups and says which tasks to place together (`Part`), in which order. It places nothing, and it
costs nothing for jobs without policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maar.model.jobs import Closeness, Job, SubgroupPolicy
from maar.model.minimum import Division, Gap, Lack
from maar.model.resources import Ints, Mask
from maar.model.tasks import READY, Status, Subgroup, among

if TYPE_CHECKING:
    from maar.session.placement import Group
    from maar.session.session import Session

OWNER = "subgroups"
WITH_ROOM = (*READY, Status.NOMINATED)
USABLE = (*WITH_ROOM, Status.PENDING)
UNDIVIDED = -1
"""In place of the number of a subgroup: the task is in none."""


class Subgroups:
    """The subgroups of one job, numbered by policy and then by their values."""

    def __init__(self, session: Session, job: Job) -> None:
        self._session = session
        self._first, last = session.snapshot.jobs.members.span(job.index)
        stated = [task.subgroup for task in session.snapshot.tasks.tasks[self._first : last]]
        known = sorted({subgroup for subgroup in stated if subgroup is not None}, key=_key)
        number = {subgroup: i for i, subgroup in enumerate(known)}
        self._of: Ints = np.array([UNDIVIDED if s is None else number[s] for s in stated], dtype=np.int64)
        self.policies: tuple[SubgroupPolicy, ...] = job.subgroups
        # Without the gang plugin each task starts alone.
        rules = job.subgroups if session.hooks.gang is not None else [SubgroupPolicy(p.name) for p in job.subgroups]
        self.division = Division.by(rules, known)
        self.policy, self.size = self.division.policy, self.division.size
        self.names: list[str] = ["/".join((job.subgroups[s.policy].name, *s.values)) for s in known]

    def __len__(self) -> int:
        return len(self.names)

    def of(self, tasks: Ints) -> Ints:
        """The subgroup of each of these tasks."""
        return np.asarray(self._of[tasks - self._first])

    def tasks(self, subgroup: int, *statuses: Status) -> Ints:
        """The tasks of a subgroup in the given statuses."""
        chosen = (self._of == subgroup) & self._in(statuses)
        return np.flatnonzero(chosen) + self._first

    def count(self, statuses: tuple[Status, ...]) -> Ints:
        """How many tasks of each subgroup are in the given statuses."""
        chosen = self._of[self._in(statuses) & (self._of >= 0)]
        return np.bincount(chosen, minlength=len(self)).astype(np.int64)

    def _in(self, statuses: tuple[Status, ...]) -> Mask:
        status = self._session.state.status[self._first : self._first + len(self._of)]
        return np.asarray(among(statuses).take(status))

    def closeness(self, subgroup: int) -> Closeness | None:
        return None if subgroup < 0 else self.policies[int(self.policy[subgroup])].closeness

    def complete(self, statuses: tuple[Status, ...]) -> Ints:
        """How many subgroups of each policy have their size in the given statuses."""
        return self.division.complete(self.count(statuses))

    def in_part(self) -> list[int]:
        """The subgroups that run in part: they hold room and cannot work."""
        ready = self.count(READY)
        return np.flatnonzero((ready > 0) & (ready < self.size)).tolist()


def subgroups_of(session: Session, job: Job) -> Subgroups:
    """The subgroups of a job with policies."""
    return session.memo.fixed(OWNER, job.index, lambda: Subgroups(session, job))


def _key(subgroup: Subgroup) -> tuple[int, tuple[tuple[int, str], ...]]:
    """Subgroups by policy, then by values; numbers in their order."""
    values = ((int(v) if v.isdecimal() and len(v) < 10 else -1, v) for v in subgroup.values)
    return subgroup.policy, tuple(values)


class Part(NamedTuple):
    """Tasks to place together: how many of which groups, all of one subgroup (or of none)."""

    subgroup: int
    needs: tuple[tuple[Group, int], ...]
    whole: bool
    """All or nothing: the subgroup starts with these tasks."""

    @property
    def size(self) -> int:
        return sum(count for _, count in self.needs)


Put = Callable[[Part], int]
"""Places a part, and returns how many of its tasks: all or none if it is whole."""


class Assembly:
    """One attempt to place parts of a job, in order: whole subgroups, and single tasks."""

    def __init__(self, session: Session, job: Job, groups: Iterable[Group], put: Put) -> None:
        self._book = subgroups_of(session, job)
        self._put = put
        self._have = self._book.count(WITH_ROOM)
        self._failed: set[tuple[object, ...]] = set()
        """Parts that did not fit. An equal part does not fit either: room only becomes less."""
        self._loose: list[Group] = []
        """Groups of tasks that are in no subgroup, or above the size of their subgroup."""
        self._open: list[Part] = []
        """Subgroups that may start, in order: those that run in part first."""
        inside: dict[int, list[Group]] = {}
        for group in groups:
            inside.setdefault(group.subgroup, []).append(group)
        self._loose.extend(inside.pop(UNDIVIDED, ()))
        self._rest: dict[int, list[Group]] = {}
        begun = sorted(inside, key=lambda s: (self._have[s] == 0, self._place(session, inside[s]), s))
        for subgroup in begun:
            self._enter(subgroup, inside[subgroup])

    def _place(self, session: Session, groups: list[Group]) -> int:
        """Important tasks first, if a plugin orders tasks."""
        if not session.hooks.task_order:
            return 0
        return -max(int(session.snapshot.tasks.priority[group.tasks].max()) for group in groups)

    def _enter(self, subgroup: int, groups: list[Group]) -> None:
        lacking = int(self._book.size[subgroup] - self._have[subgroup])
        needs, rest = [], []
        for group in groups:
            count = min(max(lacking, 0), len(group.tasks))
            lacking -= count
            if count:
                needs.append((group, count))
            if count < len(group.tasks):
                rest.append(group._replace(tasks=group.tasks[count:]))
        if lacking > 0:
            return  # some of its tasks do not exist
        if needs:
            self._open.append(Part(subgroup, tuple(needs), whole=True))
            self._rest[subgroup] = rest
        else:
            self._loose.extend(rest)

    def complete(self, lack: Lack[int]) -> bool:
        """Put what a job lacks of its minimum: subgroups, then role minimums, then the minimum of the job."""
        policies, gap = list(lack.policies), Gap(lack.pods, lack.roles)

        def count(part: Part, n: int) -> int:
            left = n
            for group, wanted in part.needs:
                here = min(wanted, left)
                left -= here
                gap.fill(group.role, here)
            return n

        waiting = []
        for part in self._open:
            policy = int(self._book.policy[part.subgroup])
            if policies[policy] > 0 and count(part, self._offer(part)):
                policies[policy] -= 1
            else:
                waiting.append(part)
        if any(number > 0 for number in policies):
            return False

        def take(useful: Callable[[int], int], divided: bool) -> None:
            for i, group in enumerate(self._loose):
                wanted = min(useful(group.role), len(group.tasks))
                if wanted and (group.subgroup >= 0) is divided:
                    done = count(part := single(group, wanted), self._offer(part))
                    self._loose[i] = group._replace(tasks=group.tasks[done:])

        for useful in (gap.of_role, gap.of_any):
            take(useful, divided=False)
            waiting = [p for p in waiting if not self._helps(p, useful) or not count(p, self._offer(p))]
            take(useful, divided=True)
        return gap.is_filled

    def _helps(self, part: Part, useful: Callable[[int], int]) -> bool:
        return any(useful(group.role) > 0 for group, _ in part.needs)

    def grow(self, steps: int, at_least: int, chosen: Callable[[Part], bool]) -> int:
        """Put some more: whole subgroups first, then single tasks; about one of `steps` of what waits.

        Returns the number of placed tasks, which are `at_least` as many if they fit. Only `chosen` parts are put.
        """
        parts, placed = [part for part in self._open if chosen(part)], 0
        most = max(len(parts) // steps, 1)
        for part in parts:
            if most <= 0 and placed >= at_least:
                break
            if done := self._offer(part):
                placed, most = placed + done, most - 1
        for group in self._loose if not placed or placed < at_least else ():
            wanted = min(len(group.tasks), max(1, at_least - placed, len(group.tasks) // steps))
            if chosen(part := single(group, wanted)):
                placed += self._offer(part)
            if placed and placed >= at_least:
                break
        return placed

    def first(self, chosen: Callable[[Part], bool]) -> Part | None:
        """The next part if the job lacks nothing of its minimum."""
        singles = (single(group, 1) for group in self._loose if len(group.tasks))
        return next((part for part in (*self._open, *singles) if chosen(part)), None)

    def is_typical(self, part: Part) -> bool:
        """Whether every subgroup of its policy that may start needs the same: if this one cannot, no other can."""
        policy = self._book.policy[part.subgroup]
        of_policy = (other for other in self._open if self._book.policy[other.subgroup] == policy)
        return part.whole and {_needs(other) for other in of_policy} <= {_needs(part)}

    def _offer(self, part: Part) -> int:
        signature = self._signature(part)
        if signature in self._failed:
            return 0
        placed = self._put(part)
        if not placed:
            self._failed.add(signature)
        elif part.whole:
            self._loose.extend(self._rest.pop(part.subgroup, ()))
        return placed

    def _signature(self, part: Part) -> tuple[object, ...]:
        """Equal for parts of which either all fit or none: running pods tie a subgroup to their domain."""
        needs = _needs(part)
        if part.subgroup < 0 or self._have[part.subgroup] or not part.whole:
            return part.subgroup, part.whole, needs
        return UNDIVIDED, int(self._book.policy[part.subgroup]), needs


def _needs(part: Part) -> tuple[tuple[int, int, int], ...]:
    return tuple((group.role, group.shape, count) for group, count in part.needs)


def single(group: Group, count: int) -> Part:
    """Up to `count` tasks of a group, which start one by one."""
    return Part(group.subgroup, ((group, count),), whole=False)


def bundles(needs: Iterable[tuple[Group, int]]) -> Iterator[Part]:
    """Needs as parts: neighbours of one subgroup belong together."""
    together: list[tuple[Group, int]] = []
    for group, count in needs:
        if together and (group.subgroup < 0 or group.subgroup != together[0][0].subgroup):
            yield Part(together[0][0].subgroup, tuple(together), whole=True)
            together = []
        together.append((group, count))
    if together:
        yield Part(together[0][0].subgroup, tuple(together), whole=True)
