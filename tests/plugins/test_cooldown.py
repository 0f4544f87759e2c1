"""cooldown: young pods are protected, and the session wakes when the protection ends."""

from __future__ import annotations

import numpy as np

from maar.config.config import Config, NoArguments, PluginOption, Registration
from maar.model.snapshot import Snapshot
from maar.plugins import cooldown
from maar.session.hooks import Claim
from maar.session.session import Session
from maar.testing.builders import cluster, gang, node

CONFIG = Config((), ((PluginOption(Registration(cooldown.NAME, cooldown.Cooldown), NoArguments()),),))


def opened(now: float) -> Session:
    """Two pods started at 100, one with a cooldown of 60 s; a third without a start time, created at 130."""
    started = {"started": 100.0}
    snapshot = Snapshot(
        cluster(
            node("n1"),
            gang("young", on=["n1"], task={"cooldown": 60.0, **started}),
            gang("free", on=["n1"], task=started),
            gang("late", on=["n1"], task={"cooldown": 60.0, "created": 130.0, "started": None}),
            gang("claimant"),
        )
    )
    session = Session(snapshot, CONFIG, now)
    session.open()
    return session


def vote(session: Session, *names: str) -> list[bool] | None:
    """The votes of the plugin alone, for preempt and for reclaim."""
    snapshot = session.snapshot
    tasks = np.array([snapshot.tasks.number[f"ns/{name}-0"] for name in names])
    votes = []
    for across_queues in (False, True):
        claim = Claim(snapshot.jobs.jobs[snapshot.jobs.number["ns/claimant"]], 0, across_queues)
        entry = (session.hooks.reclaimable if across_queues else session.hooks.preemptable)[0]
        answer = entry.call(claim, tasks)
        votes.append(None if answer is None else answer.tolist())
    assert votes[0] == votes[1]
    return votes[0]


def test_a_young_pod_is_protected_until_its_cooldown_ends() -> None:
    assert [False, True] == vote(opened(159.9), "young", "free")
    assert [True, True] == vote(opened(160.0), "young", "free")


def test_without_a_start_its_creation_counts() -> None:
    assert [True, False] == vote(opened(189.0), "young", "late")
    assert [True, True] == vote(opened(190.0), "young", "late")


def test_abstains_where_no_candidate_has_a_cooldown() -> None:
    assert vote(opened(120.0), "free") is None


def test_wakes_when_the_first_cooldown_that_mattered_ends() -> None:
    session = opened(120.0)
    vote(session, "late", "free")
    assert 190.0 == session.wake_at
    vote(session, "young", "late")
    assert 160.0 == session.wake_at


def test_does_not_wake_for_cooldowns_that_are_over() -> None:
    session = opened(500.0)
    vote(session, "young", "late")
    assert session.wake_at is None
