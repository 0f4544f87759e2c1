"""enqueue: admit groups, so that their operators create their pods.

Groups take turns in the order of queues and jobs. A group without declared needs is admitted at once. Otherwise plugins
vote; if all abstain, the needs must fit the idle room. A refused group is also admitted if permitted evictions could
make room for it, because only existing pods can preempt. These evictions are tried and undone: this action evicts
nothing. A group that is not admitted blocks no other group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from maar.config.config import WithoutArguments
from maar.model.fitting import Mode
from maar.model.jobs import Job, Phase
from maar.model.minimum import has_minimum
from maar.model.queues import closed
from maar.model.reasons import Reason
from maar.model.resources import Ints, in_words, total
from maar.model.tasks import Status
from maar.plugins.support.quotas import compared, may_wait_for
from maar.session.eviction.making_room import needs_of
from maar.session.eviction.units import Unit
from maar.session.eviction.victims import CandidateBook, Candidates
from maar.session.hooks import Claim, Vote, combine_votes
from maar.session.nominations import runs_lower
from maar.session.session import Session
from maar.session.turns import Turns

NAME = "enqueue"

NO_SHAPE = -1
"""A group without pods claims by its declared needs, not by the shape of a task."""

MAX_FAILED_TRIALS = 2000
"""Limit of unsuccessful trial evictions for one queue in one cycle, after which its other groups wait for the next
cycle. Tuned by hand: about 0.1 s, reached only by queues with thousands of possible victims."""


class Enqueue(WithoutArguments):
    def execute(self, session: Session) -> None:
        pending = [job for job in session.active() if session.is_pending(job)]
        if not pending:
            return
        desk = AdmissionDesk(session)
        turns = Turns(session, pending, skip_overused=False)
        while (job := turns.next()) is not None:
            refusal = desk.refuse(job)
            if refusal is not None and desk.could_make_room(job):
                refusal = None
            if refusal is None:
                session.admit(job)
                desk.admit(job)
            else:
                session.note(job, refusal)
        desk.close()


class EvictionLine(NamedTuple):
    """Units in eviction order, and the needs for which some were refused after all earlier units were evicted."""

    units: list[Unit]
    refused: dict[Unit, Ints]

    def knows_refusal(self, unit: Unit, needs: Ints) -> bool:
        """Whether the unit was refused for needs that were not larger."""
        before = self.refused.get(unit)
        return before is not None and bool((before <= needs).all())


class AdmissionDesk:
    """Decides on admission: tracks the idle room, the part of it that admitted groups lack, and earlier refusals."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._book = CandidateBook(session)
        self._schedulable = ~session.snapshot.nodes.unschedulable
        self._room: tuple[int, list[int]] | None = None
        self._lacked = [0] * len(session.snapshot.axes)
        """What admitted groups lack whose pods are not all created; no other count includes it."""
        self._hopeless: dict[tuple[int, int, tuple[bool, ...]], list[list[int]]] = {}
        """Needs that were refused, by queue, priority and resources: larger needs are refused too."""
        self._lines: dict[tuple[bool, str, int], EvictionLine] = {}
        self._failed_trials: Counter[str] = Counter()
        """How many trial evictions failed for each queue."""
        self._gone: list[int] = []
        """Tasks evicted on trial for admitted groups: they stay evicted for the next groups."""
        self._soft = session.state.soft
        lacked: dict[str, list[int]] = {}
        for i in session.snapshot.jobs.active:
            job = session.job(i)
            if session.snapshot.jobs.refused[i]:
                continue
            if job.phase is Phase.INQUEUE and not has_minimum(job, session.snapshot.tasks_of(i)):
                before = lacked.setdefault(job.queue, [0] * len(self._lacked))
                if may_wait_for(session, job, lacks := self._lacks(job), before):
                    lacked[job.queue] = [a + b for a, b in zip(before, lacks, strict=True)]
                    self.admit(job)

    def admit(self, job: Job) -> None:
        """Count what an admitted group needs and does not have."""
        self._lacked = [a + b for a, b in zip(self._lacked, self._lacks(job), strict=True)]

    def _lacks(self, job: Job) -> list[int]:
        has = self._session.state.job_allocated[job.index].tolist()
        return [max(need - got, 0) for need, got in zip(self._needs(job), has, strict=True)]

    def close(self) -> None:
        for task in reversed(self._gone):
            self._session.state.spare(task)
        self._session.state.soften(self._soft)

    def refuse(self, job: Job) -> Reason | None:
        """Why a group is not admitted without evictions; `None` if it is."""
        session, queue = self._session, self._session.queue_of(job)
        if not queue.open:
            return closed(NAME, queue.name)
        if not (job.min_resources or job.quota_needs) or job.is_elastic:
            return None  # the size of an elastic job is already decided, and its room is kept
        accepted, vote = combine_votes((e.tier, e.call(job)) for e in session.hooks.job_enqueueable)
        if accepted:
            return self._no_room(job) if vote is Vote.ABSTAIN else None
        if isinstance(vote, Reason):
            return vote
        return Reason(NAME, "Refused", "a plugin refused to admit it", queue=queue.name)

    def _needs(self, job: Job) -> list[int]:
        return self._session.snapshot.axes.row(job.min_resources or {})

    def _idle(self) -> list[int]:
        """Free and releasing room on schedulable nodes, without what admitted groups lack."""
        state, rows = self._session.state, self._schedulable
        if self._room is None or self._room[0] != state.cursor:
            self._room = state.cursor, total(np.maximum(self._session.capacity.free(Mode.LATER)[rows], 0))
        return [a - b for a, b in zip(self._room[1], self._lacked, strict=True)]

    def _no_room(self, job: Job) -> Reason | None:
        """The first resource of which the group needs more than is idle."""
        axes, needs, idle = self._session.snapshot.axes, self._needs(job), self._idle()
        for d in [*compared(axes), axes.pods]:
            if needs[d] > 0 and needs[d] > idle[d]:
                name, left = axes.names[d], max(idle[d], 0)
                have = f"only {in_words(name, left)} idle and not promised to other jobs"
                words = f"needs {in_words(name, needs[d])} {name}, {have}"
                lasting = f"not enough idle room: asks for {in_words(name, needs[d])} {name}"
                return Reason(NAME, "NotEnoughIdle", words, name, needs[d], left, queue=job.queue, lasting=lasting)
        return None

    # -- room that could be made

    def could_make_room(self, job: Job) -> bool:
        """Whether permitted evictions would let the group in; the trial evictions stay until `close`."""
        needs = self._needs(job)
        queue = int(self._session.snapshot.jobs.queue[job.index])
        kind = queue, job.priority, tuple(n > 0 for n in needs)
        tried = self._hopeless.setdefault(kind, [])
        if not job.preempts or self._is_silent(job) or self._session.hooks.is_beyond_evictions(job):
            return False
        if not self._session.queue_of(job).open or any(_covers(needs, less) for less in tried):
            return False
        if self._failed_trials[job.queue] > MAX_FAILED_TRIALS:
            return False
        if any(self._suffice(job, candidates, across) for candidates, across in self._candidates(job)):
            return True
        tried.append(needs)
        return False

    def _is_silent(self, job: Job) -> bool:
        """Whether all its pods exist, and its minimum needs some for which nothing may be evicted."""
        snapshot = self._session.snapshot
        if snapshot.tasks.all_preempt or not has_minimum(job, snapshot.tasks_of(job.index)):
            return False
        return not needs_of(self._session, job, claims=True)

    def _candidates(self, job: Job) -> Iterator[tuple[Candidates, bool]]:
        """Possible victims: in its own queue by preempt, in others by reclaim, if these actions are configured."""
        session = self._session
        if session.config.has_action("preempt") and runs_lower(session, job):
            yield self._book.others(Claim(job, NO_SHAPE, across_queues=False, priority=job.priority)), False
        if (
            session.config.has_action("reclaim")
            and session.hooks.is_overused(session.queue_of(job)) is None
            and session.hooks.may_take(job, NO_SHAPE, 1)
        ):
            yield self._book.others(Claim(job, NO_SHAPE, across_queues=True, priority=job.priority)), True

    def _suffice(self, job: Job, candidates: Candidates, across: bool) -> bool:
        """Evict units, cheapest first, until the group can be admitted; otherwise evict none."""
        if len(candidates.tasks) == 0 or not self._could_suffice(job, candidates):
            return False
        session, needs, gone = self._session, np.array(self._needs(job)), list[int]()
        line, refused = self._line(job, candidates, across), list[Unit]()
        with session.statement() as statement:
            for unit in line.units:
                now = None if line.knows_refusal(unit, needs) else self._still_there(candidates, unit)
                if now is None or not self._helps(now, needs):
                    continue
                if not candidates.agreed(now):
                    candidates.refuse(now)
                    refused.append(unit)
                    continue
                for task in now.tasks:
                    session.state.evict(task)
                gone.extend(now.tasks)
                if self._no_room(job) is None and self.refuse(job) is None:
                    statement.commit()
                    self._gone.extend(gone)
                    line.refused.update((unit, needs) for unit in refused)
                    return True
        self._failed_trials[job.queue] += len(gone)
        return False

    def _line(self, job: Job, candidates: Candidates, across: bool) -> EvictionLine:
        """The units for a group, cheapest first. Shared by equal groups, since units only leave during this action."""
        equals = across, job.queue, job.priority
        if equals not in self._lines:
            self._lines[equals] = EvictionLine(candidates.units(), {})
        return self._lines[equals]

    def _could_suffice(self, job: Job, candidates: Candidates) -> bool:
        """Whether the room would suffice with all candidates gone."""
        freed = total(self._session.capacity.of(candidates.left()))
        return all(
            needs <= idle + more
            for needs, idle, more in zip(self._needs(job), self._idle(), freed, strict=True)
            if needs > 0
        )

    def _still_there(self, candidates: Candidates, unit: Unit) -> Unit | None:
        """The unit as it is now: a gang without members already evicted as surplus."""
        if unit.whole:
            return candidates.whole(unit.job)
        return unit if self._session.state.status[unit.tasks[0]] == Status.BOUND else None

    def _helps(self, unit: Unit, needs: Ints) -> bool:
        snapshot = self._session.snapshot
        frees = snapshot.shapes.requests[snapshot.tasks.shape[list(unit.tasks)]]
        return bool((frees[:, needs > 0] > 0).any())


def _covers(left: list[int], right: list[int]) -> bool:
    return all(a >= b for a, b in zip(left, right, strict=True))
