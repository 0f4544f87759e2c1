"""Equal jobs are asked once: who shares a refusal, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maar.actions.patience import Arguments
from maar.actions.preempt import Preempt
from maar.session.hooks import Claim, GangRules, Vote
from maar.session.register import Register
from maar.session.session import Session
from maar.testing.builders import Gang, cluster, gang, node

Opened = Callable[..., Session]


def asking(asked: list[str]) -> Callable[[Session, Register], None]:
    """Gangs; a vote that permits each task alone and refuses what leaves together, and lists who asked for it."""

    def vote(claim: Claim, tasks: Any) -> Any:
        if claim.together:
            asked.append(claim.job.key.removeprefix("ns/"))
        return np.full(len(tasks), not claim.together)

    def open_session(session: Session, on: Register) -> None:
        on.gang(GangRules(lambda job: job.min_member, lambda job: {}, True, True))
        on.preemptable(vote)
        on.job_starving(lambda job: session.state.job_nominated[job.index] < job.min_member)
        on.job_nominated(
            lambda job: Vote.PERMIT if session.state.job_nominated[job.index] >= job.min_member else Vote.REJECT
        )

    return open_session


def waits(name: str, pods: int = 1, **fields: Any) -> Gang:
    return gang(name, pods, **{"gpu": 2, "priority": 5, **fields})


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (waits("b"), ["a"]),
        (waits("b", created=9.0), ["a"]),
        (waits("b", 2), ["a"]),  # more of the same
        (waits("b", gpu=1), ["a", "b"]),
        (waits("b", priority=4), ["a", "b"]),
        (waits("b", constraints={"node_selector": ()}, cpu=2), ["a", "b"]),
    ],
)
def test_equal_jobs_are_asked_once(opened: Opened, other: Gang, expected: list[str]) -> None:
    asked: list[str] = []
    low = gang("low", gpu=2, on=["n1"])
    big = gang("large", gpu=2, on=["n2"])
    made = cluster(node("n1", gpu=2), node("n2", gpu=2), low, big, waits("a"), other)
    session = opened(made, [asking(asked)])
    Preempt(Arguments()).execute(session)
    assert expected == list(dict.fromkeys(asked))
    reasons = {session.job(i).key: [reason.message for reason in noted] for i, noted in session.notes.items()}
    assert ["ns/a", "ns/b"] == sorted(reasons)
    if other.job.min_member == 1:
        assert reasons["ns/a"] == reasons["ns/b"]


def permitting(*names: str) -> Callable[[Session, Register], None]:
    """The same, but jobs with these keys may evict."""

    def open_session(session: Session, on: Register) -> None:
        asking([])(session, on)
        session.hooks.preemptable.clear()
        on.preemptable(lambda claim, tasks: np.full(len(tasks), claim.job.key in names or not claim.together))

    return open_session


def nominated(session: Session) -> set[str]:
    return {session.job(i).key for i in np.flatnonzero(session.state.job_nominated).tolist()}


def test_fewer_of_the_same_are_asked_again(opened: Opened) -> None:
    kept = gang("kept", gpu=2, on=["n2"], priority=9)
    made = cluster(node("n1", gpu=2), node("n2", gpu=2), gang("low", gpu=2, on=["n1"]), kept, waits("a", 2), waits("b"))
    session = opened(made, [permitting("ns/a", "ns/b")])
    Preempt(Arguments()).execute(session)
    assert {"ns/b"} == nominated(session)


def test_equal_jobs_are_asked_again_after_a_change(opened: Opened) -> None:
    """`a` may not evict; `b`, which asks for something else, evicts a gang on three nodes: then `c` fits, too."""
    nodes = [node(f"n{i}", gpu=2) for i in range(3)]
    low = gang("low", 3, gpu=2, on=[n.name for n in nodes])
    runs = gang("other", gpu=2, on=["n9"], priority=1)
    made = cluster(nodes, node("n9", gpu=2), low, runs, waits("a", 2), waits("b", gpu=1), waits("c", 2))
    session = opened(made, [permitting("ns/b")])
    Preempt(Arguments()).execute(session)
    assert {"ns/b", "ns/c"} == nominated(session)
