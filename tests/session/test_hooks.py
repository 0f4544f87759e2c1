"""How the answers of plugins combine into one, rule by rule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from maar.model.jobs import Job
from maar.model.queues import Queue
from maar.model.reasons import Reason
from maar.model.resources import Ints, Mask
from maar.session.hooks import Allowance, Claim, Entry, Hooks, Vote, by_comparison, combine_votes
from maar.session.register import Register

NO = Reason("quota", "OverQuota", "no")
PERMIT, ABSTAIN, REJECT = Vote.PERMIT, Vote.ABSTAIN, Vote.REJECT
JOB = Job("ns/a")
QUEUE = Queue("q")


def registered(*tiers: list[Callable[[Register], None]]) -> Hooks:
    hooks = Hooks()
    for tier, plugins in enumerate(tiers):
        for i, plugin in enumerate(plugins):
            plugin(Register(hooks, f"plugin-{tier}-{i}", tier, {}))
    return hooks


# -- orders


def test_the_first_plugin_that_tells_two_jobs_apart_decides() -> None:
    hooks = registered([lambda on: on.job_order(lambda j: -j.priority)], [lambda on: on.job_order(lambda j: j.queue)])
    jobs = [
        Job("ns/1", priority=1, queue="a"),
        Job("ns/2", priority=2, queue="b"),
        Job("ns/3", priority=2, queue="a"),
    ]
    assert ["ns/3", "ns/2", "ns/1"] == [j.key for j in sorted(jobs, key=hooks.job_key)]


def test_then_age_then_the_key() -> None:
    hooks = registered([lambda on: on.job_order(lambda j: 0)])
    jobs = [Job("ns/b", created=1.0), Job("ns/a", created=1.0), Job("ns/z", created=0.5)]
    assert ["ns/z", "ns/a", "ns/b"] == [j.key for j in sorted(jobs, key=hooks.job_key)]
    queues = [Queue("b"), Queue("a"), Queue("z", created=-1.0)]
    assert ["z", "a", "b"] == [q.name for q in sorted(queues, key=hooks.queue_key)]


def test_namespaces_are_equal_until_a_plugin_orders_them() -> None:
    assert () == registered([]).namespace_key("any")
    hooks = registered([lambda on: on.namespace_order({"x": 2, "y": 1}.__getitem__)])
    assert ["y", "x"] == sorted(["x", "y"], key=hooks.namespace_key)


def test_a_comparison_is_an_order_too() -> None:
    hooks = registered(
        [lambda on: on.job_order(by_comparison(lambda a, b: b.priority - a.priority))],
        [lambda on: on.job_order(lambda j: j.queue)],
    )
    jobs = [Job("ns/1", priority=1), Job("ns/2", priority=2, queue="b"), Job("ns/3", priority=2, queue="a")]
    assert ["ns/3", "ns/2", "ns/1"] == [j.key for j in sorted(jobs, key=hooks.job_key)]


def test_tasks_by_plugins_then_by_number() -> None:
    first, second = np.array([0, 0, 1, 1, 0]), np.array([1, 0, 0, 0, 1])
    hooks = registered([lambda on: on.task_order(lambda t: first[t])], [lambda on: on.task_order(lambda t: second[t])])
    assert [1, 0, 4, 2, 3] == hooks.sort_tasks(np.arange(5)).tolist()
    assert [3, 1, 2] == registered([]).sort_tasks(np.array([3, 1, 2])).tolist()


# -- votes


@pytest.mark.parametrize(
    ("votes", "accepted", "by"),
    [
        ([], True, ABSTAIN),
        ([(0, ABSTAIN), (1, ABSTAIN)], True, ABSTAIN),
        ([(0, PERMIT)], True, PERMIT),
        ([(0, REJECT)], False, REJECT),
        ([(0, NO)], False, NO),
        ([(0, ABSTAIN), (1, REJECT)], False, REJECT),
        ([(0, PERMIT), (0, REJECT)], False, REJECT),  # a reject counts in the whole tier
        ([(0, REJECT), (0, PERMIT)], False, REJECT),
        ([(0, PERMIT), (1, REJECT)], True, PERMIT),  # a tier with a permit decides
        ([(0, ABSTAIN), (1, PERMIT), (2, NO)], True, PERMIT),
        ([(0, PERMIT), (0, ABSTAIN), (1, NO)], True, PERMIT),
    ],
)
def test_votes_go_tier_by_tier(votes: list[tuple[int, Vote | Reason]], accepted: bool, by: Vote | Reason) -> None:
    assert (accepted, by) == combine_votes(votes)


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([], True),
        ([[ABSTAIN]], True),
        ([[REJECT]], False),
        ([[PERMIT], [REJECT]], True),
        ([[ABSTAIN], [REJECT]], False),
    ],
)
def test_nominated_is_a_vote(votes: list[list[Vote]], expected: bool) -> None:
    hooks = Hooks()
    hooks.job_nominated = [
        Entry(tier, "p", lambda job, vote=vote: vote)  # type: ignore[misc]
        for tier, group in enumerate(votes)
        for vote in group
    ]
    assert expected is hooks.is_nominated(JOB)


# -- all, any, first


def say(answer: bool) -> Callable[..., bool]:
    return lambda *_: answer


@pytest.mark.parametrize(
    ("tiers", "ready", "take"),
    [([], True, True), ([[True]], True, True), ([[True], [False]], False, False), ([[False, True]], False, False)],
)
def test_all_must_agree(tiers: list[list[bool]], ready: bool, take: bool) -> None:
    hooks = Hooks()
    for tier, answers in enumerate(tiers):
        for answer in answers:
            on = Register(hooks, "p", tier, {})
            on.job_ready(say(answer))
            on.preemptive(say(answer))
    assert (ready, take) == (hooks.is_ready(JOB), hooks.may_take(JOB, 0, 1))


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], False),
        ([[True, True]], True),
        ([[True, False]], False),
        ([[True], [False]], True),  # only the first tier with an opinion counts
        ([[], [False], [True]], False),
        ([[], [True], [False]], True),
    ],
)
def test_starving_asks_the_first_tier_that_has_an_opinion(tiers: list[list[bool]], expected: bool) -> None:
    hooks = Hooks()
    for tier, answers in enumerate(tiers):
        for answer in answers:
            Register(hooks, "p", tier, {}).job_starving(say(answer))
    assert expected is hooks.is_starving(JOB)


@pytest.mark.parametrize(
    ("limits", "wanted", "allowed"),
    [([], 5, 5), ([3], 5, 3), ([3, 2], 5, 2), ([2, 4], 5, 2), ([0, 9], 5, 0), ([-1], 5, 0), ([9], 5, 5)],
)
def test_the_tightest_allowance_counts(limits: list[int], wanted: int, allowed: int) -> None:
    hooks = Hooks()
    for limit in limits:
        on = Register(hooks, f"quota-{limit}", 0, {})
        on.allocatable(
            lambda job, shape, n, limit=limit: limit,  # type: ignore[misc]
            lambda job, shape, n, limit=limit: Reason(f"quota-{limit}", "OverQuota", str(n)),  # type: ignore[misc]
        )
    assert allowed == hooks.allowed(JOB, 0, wanted)
    refused = [f"quota-{limit}" for limit in limits if limit < wanted]
    assert refused == [r.plugin for r in hooks.refusals(JOB, 0, wanted)]


def test_an_allowance_is_asked_for_what_the_others_leave() -> None:
    asked: list[int] = []

    def quota(limit: int) -> Allowance:
        def count(job: Job, shape: int, wanted: int) -> int:
            asked.append(wanted)
            return limit

        return count

    hooks = Hooks()
    for limit in (3, 0, 7):
        Register(hooks, "p", 0, {}).allocatable(quota(limit), lambda job, shape, n: NO)
    assert 0 == hooks.allowed(JOB, 0, 5)
    assert [5, 3] == asked


def test_one_is_enough_for_overused() -> None:
    hooks = Hooks()
    assert hooks.is_overused(QUEUE) is None
    Register(hooks, "a", 0, {}).overused(say(False), lambda q: Reason("a", "Overused", "a"))
    assert hooks.is_overused(QUEUE) is None
    Register(hooks, "b", 1, {}).overused(say(True), lambda q: Reason("b", "Overused", q.name))
    Register(hooks, "c", 1, {}).overused(say(True), lambda q: Reason("c", "Overused", q.name))
    assert Reason("b", "Overused", "q") == hooks.is_overused(QUEUE)


def test_the_first_failure_is_the_answer() -> None:
    first, second = Reason("b", "x", "first"), Reason("c", "y", "second")
    hooks = registered(
        [lambda on: on.job_valid(lambda j: None)],
        [lambda on: on.job_valid(lambda j: first), lambda on: on.job_valid(lambda j: second)],
    )
    assert first == hooks.is_valid(JOB)
    assert registered([]).is_valid(JOB) is None


# -- victims


@pytest.mark.parametrize(
    ("tiers", "agreed"),
    [
        ([], [0, 0, 0]),  # without votes there are no victims
        ([[None]], [0, 0, 0]),  # all abstain: the same
        ([[[1, 1, 0]]], [1, 1, 0]),
        ([[[1, 1, 0], [0, 1, 1]]], [0, 1, 0]),
        ([[[1, 1, 0]], [[0, 1, 1]]], [0, 1, 0]),  # over all tiers, not only the first that answers
        ([[[1, 1, 1]], [None], [[1, 0, 1]]], [1, 0, 1]),  # an abstention removes nothing
        ([[[0, 0, 0]], [[1, 1, 1]]], [0, 0, 0]),  # an empty vote is an answer
        ([[None], [[1, 1, 1]]], [1, 1, 1]),
    ],
)
@pytest.mark.parametrize("across_queues", [False, True])
def test_victims_need_the_agreement_of_all_voters(
    tiers: list[list[list[int] | None]], agreed: list[int], across_queues: bool
) -> None:
    hooks = Hooks()

    def voter(vote: list[int] | None) -> Callable[[Claim, Ints], Mask | None]:
        return lambda claim, tasks: None if vote is None else np.array(vote, dtype=np.bool_)

    for tier, votes in enumerate(tiers):
        for vote in votes:
            on = Register(hooks, "p", tier, {})
            (on.reclaimable if across_queues else on.preemptable)(voter(vote))
    claim = Claim(JOB, 0, across_queues)
    assert agreed == hooks.victims(claim, np.arange(3)).astype(int).tolist()
    other = Claim(JOB, 0, not across_queues)
    assert [0, 0, 0] == hooks.victims(other, np.arange(3)).astype(int).tolist()
