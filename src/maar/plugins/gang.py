"""gang: a job starts with its whole minimum; an eviction keeps the minimum or takes the whole gang.

The minimum is that of the job, the least number of its subgroups, and those of its roles unless the job's minimum is
smaller than their sum (then only the job's counts, as in Volcano). The argument `gang.eviction` says whether whole
gangs may be evicted. Without it the flags decide: `enablePreemptable: false` (for reclaim `enableReclaimable: false`)
removes the protection of the gang, so whole gangs may be evicted. If the flag is unset, preempt evicts only surplus
pods and subgroups. Reclaim then evicts whole gangs if a plugin in another tier names its victims: in Volcano that tier
decides without this plugin.

Jobs that no order of a plugin distinguishes share room for their surplus evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from maar.config.gangs import victims_named_outside
from maar.model.codes import MEMBERS, Code
from maar.model.durations import Duration, parse_duration, written
from maar.model.jobs import Job
from maar.model.reasons import Reason
from maar.model.words import count as counted
from maar.model.words import number
from maar.plugins.support.shares import Dominant
from maar.session import subgroups
from maar.session.gangs import lacking_at_best, missing
from maar.session.hooks import GangRules, Vote
from maar.session.register import Register
from maar.session.release import BROKEN
from maar.session.session import Session

NAME = "gang"

TOO_FEW = Code("NotEnoughTasks", MEMBERS)
TOO_FEW_OF_ROLE = Code("NotEnoughPodsOfTask", MEMBERS)
TOO_FEW_SUBGROUPS = Code("NotEnoughSubgroups", MEMBERS)
CODES = (TOO_FEW, TOO_FEW_OF_ROLE, TOO_FEW_SUBGROUPS)
_NOTHING = Fraction(0)
_OTHERS = "the others do not exist, are blocked or have ended"


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`gang.eviction`: `whole` allows the eviction of whole gangs, `surplus` only of pods above the minimum.

    `gang.brokenGracePeriod`: how long a gang stays that lacks part of its minimum because a pod failed. By default for
    as long as it likes.
    """

    eviction: Literal["whole", "surplus"] | None = msgspec.field(name="gang.eviction", default=None)
    grace: Duration | None = msgspec.field(name="gang.brokenGracePeriod", default=None)

    def seconds(self) -> float | None:
        return None if self.grace is None else parse_duration(self.grace)

    def notes(self) -> list[str]:
        if self.grace is None:
            return []
        broken = "a gang without its minimum because a pod failed"
        return [f"`gang.brokenGracePeriod`: {broken} is evicted after {written(self.grace)}, or what its job says"]


class Gang:
    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._roles: dict[int, Mapping[int, int]] = {}

    def open(self, session: Session, on: Register) -> None:
        self._session = session
        on.gang(
            GangRules(
                minimum=lambda job: job.min_member,
                role_minimums=self._role_minimums,
                whole_for_preempt=self._whole(on, "preemptable"),
                whole_for_reclaim=self._whole(
                    on, "reclaimable", unset=bool(victims_named_outside(session.config, on.tier))
                ),
                grace=self._grace(on),
            )
        )
        on.job_order(self._has_pods, "does not have its minimum yet")
        self._dominant = Dominant(session.total, session.snapshot.axes.pods)
        on.job_tie(self._above_minimum, "has less above its minimum")
        on.job_valid(self._valid)
        on.job_ready(self._ready)
        on.job_nominated(lambda job: Vote.PERMIT if self._nominated(job) else Vote.REJECT)
        on.job_starving(lambda job: not self._nominated(job))

    def _whole(self, on: Register, flag: str, unset: bool = False) -> bool:
        """Whether whole gangs may be evicted: by the argument, else by the flag, else `unset`."""
        if self._arguments.eviction is not None:
            return self._arguments.eviction == "whole"
        return not on.flags[flag] if flag in on.flags else unset

    def _grace(self, on: Register) -> Callable[[Job], float] | None:
        seconds = self._arguments.seconds()
        if seconds is None:
            return None
        on.remember(BROKEN)
        return lambda job: seconds if job.broken_grace is None else job.broken_grace

    def _role_minimums(self, job: Job) -> Mapping[int, int]:
        """Role row to its minimum; empty if role minimums are ignored."""
        if job.index not in self._roles:
            roles = self._session.snapshot.jobs.roles[job.index] if job.role_minimums else ()
            self._roles[job.index] = {r.index: r.minimum for r in roles if r.minimum > 0}
        return self._roles[job.index]

    def _has_pods(self, job: Job) -> bool:
        """Whether it has its pods and subgroups. In the order of jobs its roles do not count (as in Volcano)."""
        lack = missing(self._session, job, nominated=False)
        return not lack.pods and not any(lack.policies)

    def _above_minimum(self, job: Job) -> Fraction:
        """The share of the cluster that a job has above its minimum, as if its pods were equal."""
        state = self._session.state
        there = int(state.job_ready[job.index] + state.job_nominated[job.index])
        above = there - job.min_member
        if above <= 0:
            return _NOTHING
        return Fraction(self._dominant.share(state.job_allocated[job.index].tolist()) * above, there)

    def _ready(self, job: Job) -> bool:
        return not missing(self._session, job, nominated=False).total

    def _nominated(self, job: Job) -> bool:
        return not missing(self._session, job).total

    def _valid(self, job: Job) -> Reason | None:
        """The reason if too few pods exist for the minimum."""
        if not (job.role_min or job.subgroups) and self._session.state.job_pending.item(job.index) >= job.min_member:
            return None  # asked many times for thousands of jobs
        lack = lacking_at_best(self._session, job)
        if lack.pods:
            return self._too_few(TOO_FEW, counted(job.min_member, "pod"), job.min_member, lack.pods)
        for role in self._session.snapshot.jobs.roles[job.index] if lack.roles else ():
            if lacks := lack.roles.get(role.index):
                pods = counted(role.minimum, "pod")
                return self._too_few(TOO_FEW_OF_ROLE, pods, role.minimum, lacks, f"role `{role.name}` ")
        for i, policy in enumerate(job.subgroups):
            if lacks := lack.policies[i]:
                pods = f"{counted(policy.least, 'subgroup')} of {counted(policy.size, 'pod')}"
                found = self._too_few(TOO_FEW_SUBGROUPS, pods, policy.least, lacks, f"policy `{policy.name}` ")
                return replace(found, message=found.message + self._first_short(job, i))
        return None

    def _too_few(self, code: Code, pods: str, needs: int, lacks: int, who: str = "") -> Reason:
        has = "have enough" if code == TOO_FEW_SUBGROUPS else "can be placed"
        what = f"{who}needs {pods}, only {number(needs - lacks)} {has} ({_OTHERS})"
        return Reason(NAME, code.name, what, needs=needs, has=needs - lacks)

    def _first_short(self, job: Job, policy: int) -> str:
        """The first subgroup of a policy that has too few pods, in words."""
        book = subgroups.subgroups_of(self._session, job)
        there = book.count(subgroups.USABLE)
        short = np.flatnonzero((book.policy == policy) & (there < book.size)).tolist()
        return f": subgroup `{book.names[short[0]]}` has {there[short[0]]}" if short else ""
