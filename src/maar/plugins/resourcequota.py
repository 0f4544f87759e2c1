"""resourcequota: a group is admitted only if its pods fit into the quotas of its namespace.

The API server refuses pods that exceed a ResourceQuota, so the gang of a group that was admitted too early exists in
part. Counted are the limit and the use of each quota, and what is lacked in the namespace: the needs of admitted
groups whose pods do not all exist yet. Quotas name resources in several ways (`cpu`, `requests.cpu`), see `plain`.
"""

from __future__ import annotations

from collections.abc import Mapping

from maar.config.config import WithoutArguments
from maar.model.codes import Code, Meaning
from maar.model.jobs import Job, Phase
from maar.model.minimum import lacking
from maar.model.reasons import Reason
from maar.model.resources import counted_as, in_words
from maar.model.snapshot import Quota
from maar.model.tasks import Status
from maar.session.hooks import Vote
from maar.session.register import Register
from maar.session.session import Session

NAME = "resourcequota"
EXCEEDED = Code(
    "QuotaExceeded",
    Meaning("QuotaExceeded", "wait for other pods of the namespace, or raise its ResourceQuota", 50),
)


class Resourcequota(WithoutArguments):
    def open(self, session: Session, on: Register) -> None:
        """Register the vote; what is lacked is counted for namespaces with quotas only."""
        self._session = session
        self._lacked: dict[str, dict[str, int]] = {}
        self._quotas: dict[str, list[Quota]] = {}
        for quota in sorted(session.snapshot.cluster.quotas, key=lambda q: q.key):
            self._quotas.setdefault(quota.namespace, []).append(quota)
        if self._quotas:
            for i in session.snapshot.jobs.active:
                job = session.job(i)
                if job.phase is Phase.INQUEUE and session.trouble(job) is None and self._vote(job) is Vote.PERMIT:
                    self._admit(job)
            on.job_enqueued(self._admit)
        on.job_enqueueable(self._vote)
        # Trial evictions do not change what the API server counts as used.
        on.beyond_evictions(lambda job: isinstance(self._vote(job), Reason))

    def _vote(self, job: Job) -> Vote | Reason:
        lacked = self._lacked.get(job.namespace, {})
        asks = lacks(self._session, job) if job.namespace in self._quotas else {}
        for quota in self._quotas.get(job.namespace, ()):
            reason = exceeded(quota, asks, lacked)
            if reason is not None:
                return reason
        return Vote.PERMIT

    def _admit(self, job: Job) -> None:
        """Count what an admitted group lacks; undone with the admission."""
        if job.namespace in self._quotas and (more := lacks(self._session, job)):
            before = self._lacked.get(job.namespace, {})
            after = {name: before.get(name, 0) + more.get(name, 0) for name in {**before, **more}}
            self._session.state.put(self._lacked, job.namespace, after)


def plain(name: str) -> str:
    """One name for what a quota counts: `requests.cpu` is `cpu`, and `count/pods` is `pods`."""
    return "pods" if name == "count/pods" else name.removeprefix("requests.")


def lacks(session: Session, job: Job) -> dict[str, int]:
    """What the pods that a group still lacks of its minimum will use, by plain name: their part of its needs."""
    least = max(job.min_member, 1)
    ended = (Status.SUCCEEDED, Status.FAILED)
    lack = lacking(job, [task for task in session.snapshot.tasks_of(job.index) if task.status not in ended])
    needs: dict[str, int] = {}
    for name, amount in {**(job.min_resources or {}), **job.quota_needs}.items():
        part = -(-amount * min(lack, least) // least)
        if part > 0:
            needs[plain(name)] = max(part, needs.get(plain(name), 0))
    return needs


def exceeded(quota: Quota, asks: Mapping[str, int], lacked: Mapping[str, int]) -> Reason | None:
    """Why a quota does not allow what a group asks for, beside what is used and lacked; `None` if it does."""
    for name, limit in sorted(quota.hard.items()):
        ask, waiting, used = asks.get(plain(name), 0), lacked.get(plain(name), 0), quota.used.get(name, 0)
        if ask > 0 and used + waiting + ask > limit:
            unit = counted_as(name)
            may, has, more = (in_words(unit, amount) for amount in (limit, used, ask))
            also = f" and {in_words(unit, waiting)} promised to admitted groups" if waiting else ""
            title = quota.key.partition("/")[2]
            return Reason(
                NAME,
                EXCEEDED.name,
                f"quota `{title}` of the namespace allows {may} {name}, {has} in use{also}, asks for {more} more",
                resource=unit,
                needs=ask,
                has=max(limit - used - waiting, 0),
                limit=limit,
                lasting=f"quota `{title}` of the namespace allows {may} {name}: the group asks for {more}",
            )
    return None
