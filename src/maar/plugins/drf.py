"""drf: dominant resource fairness. The job with the smallest share of the cluster goes first.

The share of a job is its part of the resource of which it has most. Shares are whole numbers and compare exactly. A job
may take from another job of its queue if, afterwards, its share is not larger than the other's. With `enableHierarchy`
the same holds for queues in their tree (`support.hdrf`), which orders queues and decides reclaims. Namespaces take
turns by share and weight, if the configuration or a ResourceQuota gives weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import msgspec
import numpy as np

from maar.config.config import OpenArguments
from maar.model.jobs import Job
from maar.model.queues import Queue
from maar.model.resources import Ints, Mask
from maar.plugins.support.fair_tree import FairTree
from maar.plugins.support.quotas import has_job, vote_by_kind, wanted_row
from maar.plugins.support.shares import Dominant, Row, less, plus
from maar.session.hooks import Claim
from maar.session.journal import Array
from maar.session.register import Register
from maar.session.session import Session

NAME = "drf"
SMALLER = "smaller share of the cluster"
_BEFORE, _AFTER = "drf.namespace.", ".weight"


class Arguments(OpenArguments, frozen=True, forbid_unknown_fields=True):
    """`drf.namespace.<name>.weight`: how large a share a namespace may have, relative to others, before it waits."""

    namespace_weights: dict[str, int] = msgspec.field(name="drf.namespace", default={})

    @classmethod
    def normalise(cls, raw: dict[str, object]) -> dict[str, object]:
        """Gather the weights of all namespaces into one mapping."""
        weights: dict[str, int] = {}
        for key in [k for k in raw if k.startswith(_BEFORE) and k.endswith(_AFTER)]:
            text = str(raw.pop(key))
            if not text.isdecimal() or int(text) < 1:
                raise ValueError(f"{key}: expected a whole number of at least 1, got `{text}`")
            weights[key.removeprefix(_BEFORE).removesuffix(_AFTER)] = int(text)
        return {**raw, "drf.namespace": weights} if weights else raw


class Drf:
    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def open(self, session: Session, on: Register) -> None:
        self._session = session
        self._dominant = Dominant(session.total, session.snapshot.axes.pods)
        on.job_order(self._order, SMALLER)
        on.preemptable(self._victims)
        if on.flags.get("hierarchy") is True:
            tree = FairTree(session, self._dominant)
            on.queue_order(lambda queue: tree.key(_number(session, queue)), "uses less of its share in the tree")
            on.reclaimable(tree.victims)
        weights = {**session.snapshot.cluster.namespace_weights, **self._arguments.namespace_weights}
        if weights or on.flags.get("namespaceOrder") is True:
            on.namespace_order(NamespaceShares(session, self._dominant, weights).key, SMALLER)

    def _order(self, job: Job) -> int:
        row = has_job(self._session, job.index)
        return self._dominant.share(row) if any(row) else 0

    def _victims(self, claim: Claim, tasks: Ints) -> Mask:
        """Evict tasks as long as their job keeps at least the share that the claimant would have."""
        snapshot, dominant = self._session.snapshot, self._dominant
        wanted = wanted_row(self._session, claim.job, claim.shape)
        mine = dominant.share(plus(has_job(self._session, claim.job.index), wanted))
        jobs, shapes = snapshot.tasks.job[tasks], snapshot.tasks.shape[tasks]
        has: dict[int, Row] = {}

        def judge(task: int, going: bool) -> bool:
            job = int(snapshot.tasks.job[task])
            if job == claim.job.index:
                return True  # a change inside a job changes no share
            holds: Row = snapshot.shapes.requests[snapshot.tasks.shape[task]].tolist()
            left = less(has[job] if job in has else has_job(self._session, job), holds)
            guilty = mine <= dominant.share(left)
            if guilty and going:
                has[job] = left
            return guilty

        return vote_by_kind(claim, tasks, jobs * len(snapshot.shapes) + shapes, judge)


class NamespaceShares:
    """The resources of each namespace's jobs, in a column of the session."""

    def __init__(self, session: Session, dominant: Dominant, weights: Mapping[str, int]) -> None:
        jobs, requests = session.snapshot.jobs, session.snapshot.shapes.requests
        self._dominant = dominant
        self._weights = weights
        self._number: dict[str, int] = {}
        of_job = [self._number.setdefault(job.namespace, len(self._number)) for job in jobs.jobs]
        self._has: Array = np.zeros((len(self._number), len(session.snapshot.axes)), dtype=object)
        np.add.at(self._has, of_job, session.state.job_allocated.astype(object))
        session.state.listen(
            lambda job, shape, _, counts, sign: session.state.add(
                self._has, of_job[job], (requests[shape] * (sign * counts.sum())).astype(object)
            )
        )

    def key(self, namespace: str) -> Fraction:
        """The share of a namespace divided by its weight."""
        number = self._number.get(namespace)
        has = 0 if number is None else self._dominant.share(self._has[number].tolist())
        return Fraction(has, max(self._weights.get(namespace, 1), 1))


def _number(session: Session, queue: Queue) -> int:
    return session.snapshot.queues.number[queue.name]
