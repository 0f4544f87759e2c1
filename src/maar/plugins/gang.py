"""gang: a job starts with its whole minimum; an eviction keeps the minimum or takes the whole gang.

The minimum is that of the job, the least number of its subgroups, and those of its roles unless the job's minimum is
smaller than their sum (then only the job's counts, as in Volcano). The argument `gang.eviction` says whether whole
gangs may be evicted. Without it the flags decide: `enablePreemptable: false` (for reclaim `enableReclaimable: false`)
removes the protection of the gang, so whole gangs may be evicted. If the flag is unset, preempt evicts only surplus
pods and subgroups. Reclaim then evicts whole gangs if a plugin in another tier names its victims: in Volcano that tier
decides without this plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from maar.config.gangs import victims_named_outside
from maar.model.jobs import Job
from maar.model.reasons import Reason
from maar.model.tasks import Status
from maar.model.words import count as counted
from maar.model.words import number
from maar.session import subgroups
from maar.session.hooks import GangRules, Vote
from maar.session.register import Register
from maar.session.session import Session

NAME = "gang"
_OTHERS = "the others do not exist, are blocked or have ended"


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`gang.eviction`: `whole` allows the eviction of whole gangs, `surplus` only of pods above the minimum."""

    eviction: Literal["whole", "surplus"] | None = msgspec.field(name="gang.eviction", default=None)


class Gang:
    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

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
            )
        )
        on.job_order(
            lambda job: bool(
                session.state.job_ready[job.index] >= job.min_member and self._has_subgroups(job, subgroups.READY)
            )
        )
        on.job_valid(self._valid)
        on.job_ready(self._ready)
        on.job_nominated(lambda job: Vote.PERMIT if self._promised(job) else Vote.REJECT)
        on.job_starving(lambda job: not self._promised(job))

    def _whole(self, on: Register, flag: str, unset: bool = False) -> bool:
        """Whether whole gangs may be evicted: by the argument, else by the flag, else `unset`."""
        if self._arguments.eviction is not None:
            return self._arguments.eviction == "whole"
        return not on.flags[flag] if flag in on.flags else unset

    def _role_minimums(self, job: Job) -> Mapping[int, int]:
        return role_minimums(self._session, job)

    def _ready(self, job: Job) -> bool:
        state = self._session.state
        if state.job_ready[job.index] < job.min_member:
            return False
        if not all(state.role_ready[r] >= n for r, n in self._role_minimums(job).items()):
            return False
        return self._has_subgroups(job, subgroups.READY)

    def _promised(self, job: Job) -> bool:
        state = self._session.state
        if state.job_ready[job.index] + state.job_nominated[job.index] < job.min_member:
            return False
        have = state.role_ready + state.role_nominated
        if not all(have[r] >= n for r, n in self._role_minimums(job).items()):
            return False
        return self._has_subgroups(job, subgroups.PROMISED)

    def _has_subgroups(self, job: Job, statuses: tuple[Status, ...]) -> bool:
        """Whether each policy has its least number of subgroups in these statuses."""
        return not job.subgroups or subgroups.subgroups_of(self._session, job).are_enough(statuses)

    def _valid(self, job: Job) -> Reason | None:
        """The reason if too few pods exist for the minimum."""
        state, since = self._session.state, self._session.waiting_since(job)
        count = int(state.job_pending[job.index] + state.job_nominated[job.index] + state.job_ready[job.index])
        if count < job.min_member:
            what = f"needs {counted(job.min_member, 'pod')}, only {number(count)} can be placed ({_OTHERS})"
            return Reason(NAME, "NotEnoughTasks", what, needs=job.min_member, has=count, since=since)
        minimums = self._role_minimums(job)
        if minimums:
            usable = self._session.tasks_of(job, Status.PENDING, Status.NOMINATED, Status.BOUND, Status.SUCCEEDED)
            roles = self._session.snapshot.jobs.task_role[usable]
            for role in self._session.snapshot.jobs.roles[job.index]:
                minimum, there = minimums.get(role.index, 0), int((roles == role.index).sum())
                if there < minimum:
                    needs = f"role `{role.name}` needs {counted(minimum, 'pod')}"
                    what = f"{needs}, only {number(there)} can be placed ({_OTHERS})"
                    return Reason(NAME, "NotEnoughPodsOfTask", what, needs=minimum, has=there, since=since)
        return self._valid_subgroups(job) if job.subgroups else None

    def _valid_subgroups(self, job: Job) -> Reason | None:
        """The reason if too few subgroups of a policy have enough pods."""
        book = subgroups.subgroups_of(self._session, job)
        there, complete = book.count(subgroups.USABLE), book.complete(subgroups.USABLE)
        for i, policy in enumerate(job.subgroups):
            if complete[i] < policy.least:
                needs = (
                    f"policy `{policy.name}` needs {counted(policy.least, 'subgroup')} of {counted(policy.size, 'pod')}"
                )
                what = f"{needs}, only {complete[i]} have enough ({_OTHERS})"
                short = [s for s in range(len(book)) if book.policy[s] == i and there[s] < book.size[s]]
                if short:
                    what += f": subgroup `{book.names[short[0]]}` has {there[short[0]]}"
                return Reason(
                    NAME,
                    "NotEnoughSubgroups",
                    what,
                    needs=policy.least,
                    has=int(complete[i]),
                    since=self._session.waiting_since(job),
                )
        return None


def role_minimums(session: Session, job: Job) -> dict[int, int]:
    """Role row to its minimum; empty if role minimums are ignored."""
    if not job.role_min or job.min_member < sum(job.role_min.values()):
        return {}
    return {r.index: r.minimum for r in session.snapshot.jobs.roles[job.index] if r.minimum > 0}
