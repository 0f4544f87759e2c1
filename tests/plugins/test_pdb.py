"""pdb: no more evictions than disruption budgets allow, including those of this session."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from maar.config.config import Config, NoArguments, PluginOption, Registration
from maar.model.plan import Cause
from maar.model.snapshot import Budget, Snapshot
from maar.model.tasks import Status
from maar.plugins import pdb
from maar.plugins.pdb import permitted
from maar.session.hooks import Claim
from maar.session.session import Session
from maar.testing.builders import Gang, cluster, gang, node

CONFIG = Config((), ((PluginOption(Registration(pdb.NAME, pdb.Pdb), NoArguments()),),))


def running(name: str, count: int, *budgets: str) -> Gang:
    return gang(name, count, on=["n1"] * count, task={"budgets": budgets})


def opened(*parts: Gang | Budget) -> Session:
    session = Session(Snapshot(cluster(node("n1"), *parts, gang("claimant"))), CONFIG, 0.0)
    session.open()
    return session


def vote(session: Session, *names: str, together: bool = True, across_queues: bool = False) -> list[bool]:
    snapshot = session.snapshot
    job = snapshot.jobs.jobs[snapshot.jobs.number["ns/claimant"]]
    claim = Claim(job, 0, across_queues, together=together)
    tasks = np.array([snapshot.tasks.number[f"ns/{name}"] for name in names])
    entry = (session.hooks.reclaimable if across_queues else session.hooks.preemptable)[0]
    answer = entry.call(claim, tasks)
    assert answer is not None
    return [bool(x) for x in answer]


def test_without_budgets_it_has_no_vote() -> None:
    session = opened(running("a", 1))
    assert not session.hooks.preemptable
    assert not session.hooks.reclaimable


@pytest.mark.parametrize("across_queues", [False, True])
def test_a_gang_of_three_under_a_budget_of_two_gets_two_votes(across_queues: bool) -> None:
    session = opened(running("a", 3, "ns/b"), Budget("ns/b", 2))
    assert [True, True, False] == vote(session, "a-0", "a-1", "a-2", across_queues=across_queues)
    assert [True, True, False] == vote(session, "a-2", "a-1", "a-0", across_queues=across_queues)


def test_each_alone_where_the_claim_says_so() -> None:
    session = opened(running("a", 2, "ns/one"), running("b", 1, "ns/none"), Budget("ns/one", 1), Budget("ns/none", 0))
    assert [True, True, False] == vote(session, "a-0", "a-1", "b-0", together=False)


def test_pods_without_a_budget_may_go() -> None:
    """Volcano's pdb plugin never permits pods without labels; here they have no budget and may be evicted."""
    session = opened(running("free", 1), running("gone", 1, "ns/deleted"), running("a", 1, "ns/b"), Budget("ns/b", 0))
    assert [True, True, False] == vote(session, "free-0", "gone-0", "a-0")


def test_evictions_of_this_session_count_until_they_are_taken_back() -> None:
    session = opened(running("a", 3, "ns/b"), Budget("ns/b", 2))
    first = session.snapshot.tasks.number["ns/a-0"]
    claimant = session.snapshot.jobs.jobs[session.snapshot.jobs.number["ns/claimant"]]
    with session.statement():
        session.evict(first, claimant, "test", Cause.PREEMPTED)
        assert [True, False] == vote(session, "a-1", "a-2")
    assert [True, True] == vote(session, "a-1", "a-2")


def test_pods_that_were_leaving_before_are_in_the_budget_already() -> None:
    made = running("a", 2, "ns/b")
    leaving = replace(made, tasks=(replace(made.tasks[0], status=Status.RELEASING), made.tasks[1]))
    assert [True] == vote(opened(leaving, Budget("ns/b", 1)), "a-1")


def test_a_negative_budget_allows_nothing() -> None:
    assert [False] == vote(opened(running("a", 1, "ns/b"), Budget("ns/b", -1)), "a-0")


def test_every_budget_of_a_pod_must_allow_it() -> None:
    session = opened(running("a", 2, "ns/wide", "ns/tight"), Budget("ns/wide", 5), Budget("ns/tight", 1))
    assert [True, False] == vote(session, "a-0", "a-1")


def test_budgets_are_counted_each_for_itself() -> None:
    position, budget = np.array([0, 1, 2, 3, 3]), np.array([1, 0, 1, 0, 1])
    assert [True, True, False, False] == permitted(4, position, budget, np.array([2, 1]), together=True).tolist()
