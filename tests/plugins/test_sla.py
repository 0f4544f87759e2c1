"""sla: deadlines order jobs, and a job is admitted after its deadline."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from maar.decide import decide
from maar.model.jobs import Phase
from maar.model.snapshot import Snapshot
from maar.plugins.sla import Arguments
from maar.session.session import Session
from maar.testing.builders import GPU, Gang, cluster, gang, node
from maar.testing.scenario import configured, scene

TEXT = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - {name: sla, arguments: {sla-waiting-time: 1h30m}}
- plugins:
  - {name: overcommit}
"""
CONFIG = configured(TEXT)
HOUR = 3600.0


def group(name: str, **fields: Any) -> Gang:
    """A group larger than the cluster: overcommit never admits it."""
    return gang(name, 0, minimum=1, phase=Phase.PENDING, min_resources={GPU: 99}, **fields)


@pytest.mark.parametrize("value", ["soon", 90, "90", "", "1 hour", "-1h", "1h!", "0s", ["1h"]])
def test_a_waiting_time_is_a_duration(value: object) -> None:
    with pytest.raises(ValueError, match=r"^sla-waiting-time: expected a duration such as `1h30m`, got"):
        Arguments.normalise({"sla-waiting-time": value})


def test_arguments_are_seconds() -> None:
    raw = Arguments.normalise({"sla-waiting-time": "1h"})
    assert HOUR == msgspec.convert(raw, Arguments, strict=False).waiting_time


def test_a_group_is_admitted_when_its_time_has_run_out() -> None:
    world = cluster(node("n1", gpu=8), group("g", created=100.0))
    early = decide(Snapshot(world), CONFIG, 100.0 + 1.5 * HOUR - 1)
    assert ((), 100.0 + 1.5 * HOUR) == (early.admit, early.wake_at)
    plans = scene(world, CONFIG, now=100.0 + 1.5 * HOUR)
    assert ["ns/g"] == [a.job for a in plans[0].admit]
    assert plans[0].wake_at is None


def test_a_jobs_own_time_goes_before_the_configurations() -> None:
    world = cluster(node("n1", gpu=8), group("patient", sla=9 * HOUR), group("hasty", sla=60.0), group("usual"))
    plan = decide(Snapshot(world), CONFIG, 60.0)
    assert ["ns/hasty"] == [a.job for a in plan.admit]
    assert 1.5 * HOUR == plan.wake_at


def test_without_any_time_nothing_is_promised() -> None:
    config = configured(TEXT.replace(", arguments: {sla-waiting-time: 1h30m}", ""))
    plan = decide(Snapshot(cluster(node("n1", gpu=8), group("g"))), config, 1e9)
    assert ((), None) == (plan.admit, plan.wake_at)


def test_jobs_go_by_deadline_those_without_last() -> None:
    config = configured(TEXT.replace(", arguments: {sla-waiting-time: 1h30m}", ""))
    jobs = [group("none"), group("late", sla=90.0, created=50.0), group("soon", sla=100.0, created=20.0)]
    session = Session(Snapshot(cluster(node("n1"), jobs)), config, 0.0)
    session.open()
    ranked = sorted(session.snapshot.jobs.jobs, key=session.hooks.job_key)
    assert ["ns/soon", "ns/late", "ns/none"] == [j.key for j in ranked]


def test_a_running_job_needs_no_wake_up() -> None:
    running = gang("r", 2, minimum=1, gpu=8, on=["n1"])
    assert decide(Snapshot(cluster(node("n1", gpu=8), running)), CONFIG, 1.0).wake_at is None
    waiting = gang("w", 2, gpu=8)
    assert 1.5 * HOUR == decide(Snapshot(cluster(node("n1", gpu=8), waiting)), CONFIG, 1.0).wake_at


def test_a_gang_that_lacks_a_role_still_has_a_deadline() -> None:
    made = gang("a", roles={"w": 2, "m": 1}, minimum=2, role_min={"m": 1}, gpu=4, on=["n1"] * 2, sla=HOUR)
    assert HOUR == decide(Snapshot(cluster(node("n1", gpu=8), made)), CONFIG, 1.0).wake_at
