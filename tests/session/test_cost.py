"""The cost of an eviction: the order of the fields, and that every choice uses all of them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from maar.actions.preempt import take
from maar.model.plan import Cause
from maar.session.eviction.cost import Cost, LostWork, Rank
from maar.session.eviction.victims import CandidateBook
from maar.session.hooks import Claim, GangRules
from maar.session.register import Register
from maar.session.session import Session
from maar.testing.builders import cluster, elastic, gang, node

LATER = LostWork(1.0, 0.0)


def test_each_field_counts_more_than_all_after_it() -> None:
    rising = [
        Cost(evicts=False),
        Cost(evicts=False, work=LostWork(0.0, 9.0)),
        Cost(evicts=False, work=LATER),
        Cost(evicts=False, pod_priority=1),
        Cost(evicts=False, gangs=0.5, pod_priority=9, work=LATER),
        Cost(evicts=False, shortfall=Fraction(1, 9), gangs=0.25),
        Cost(evicts=False, priority=1),
        Cost(evicts=False, queue=(1,), priority=0),
        Cost(evicts=False, breaks=True),
        Cost(evicts=True),
    ]
    assert all(cheaper < dearer for cheaper, dearer in pairwise(rising))
    assert Rank(rising[0], (("ns/b", 0),), 1) < Rank(rising[1], (("ns/a", 0),), 0)


def rules(domains: list[list[int]]) -> Callable[[Session, Register], None]:
    """Gangs, and a vote that permits every eviction; jobs start in one of the domains, given by their nodes."""

    def open_session(session: Session, on: Register) -> None:
        on.gang(GangRules(lambda job: job.min_member, lambda job: {}, True, True))
        on.preemptable(lambda claim, tasks: np.ones(len(tasks), dtype=np.bool_))
        masks = [np.isin(np.arange(len(session.snapshot.nodes)), rows) for rows in domains]
        on.domains(lambda job: [masks])

    return open_session


@pytest.mark.parametrize("domains", [[[0], [1]], [[1], [0]]])
def test_a_domain_where_a_job_shrinks_comes_before_one_where_a_pod_is_evicted(
    opened: Callable[..., Session], domains: list[list[int]]
) -> None:
    """For any priorities. The choice between domains once ignored whether pods are evicted at all."""
    made = cluster(
        [node("n1", gpu=2), node("n2", gpu=2)],
        elastic("grown", 1, 2, on=["n1", "n1"], job={"priority": 3}),
        gang("surplus", 2, minimum=1, gpu=1, on=["n2", "n2"]),
        gang("claimant", gpu=1, priority=5),
    )
    session = opened(made, [rules(domains)], now=10.0)
    assert take(session, session.job(session.snapshot.jobs.number["ns/claimant"]), CandidateBook(session))
    gone = {session.snapshot.tasks.tasks[t].job: why.cause for t, why in session.evictions.items()}
    assert {"ns/grown": Cause.PREEMPTED} == gone


def test_of_equal_pods_the_highest_index_goes_first(opened: Callable[..., Session]) -> None:
    """Task numbers follow names, in which 10 comes before 9."""
    made = cluster(
        node("n1", gpu=12), gang("low", 12, minimum=9, gpu=1, on=["n1"] * 12), gang("claimant", gpu=1, priority=5)
    )
    session = opened(made, [rules([])])
    claim = Claim(session.job(session.snapshot.jobs.number["ns/claimant"]), 0, across_queues=False)
    units = CandidateBook(session).others(claim).units()
    assert [11, 10, 9] == [session.snapshot.tasks.tasks[u.tasks[0]].index for u in units if not u.whole]
