"""Jobs that rest because they changed while they were being started: others get the room, and what they have counts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from maar.decide import decide
from maar.model.plan import Plan
from maar.model.snapshot import Snapshot
from maar.testing.builders import Gang, cluster, gang, node
from maar.testing.scenario import configured

CONFIG = configured("""
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, arguments: {gang.eviction: whole}}]
- plugins: [{name: predicates}, {name: proportion}]
""")
NOW, UNTIL = 1_000_000.0, 1_000_030.0


def resting(of: Gang) -> Gang:
    return replace(of, job=replace(of.job, rests=UNTIL))


def plan(*jobs: Gang, now: float = NOW) -> Plan:
    return decide(Snapshot(cluster(node("n1", gpu=8), *jobs)), CONFIG, now)


def test_a_job_that_rests_is_not_started_and_others_get_its_room() -> None:
    first, second = resting(gang("a", 1, gpu=8, created=1.0)), gang("b", 1, gpu=8, created=2.0)
    decided = plan(first, second)
    assert ["ns/b-0"] == [bind.task for bind in decided.bind]
    ((reason,),) = (wait.reasons for wait in decided.waiting)
    assert "Changing" == reason.code
    assert "next try at 13:47:10 UTC, and until then others get its room" in reason.message
    assert UNTIL == decided.wake_at


@pytest.mark.parametrize("now", [UNTIL, UNTIL + 1])
def test_it_is_started_when_the_rest_is_over(now: float) -> None:
    assert ["ns/a-0"] == [bind.task for bind in plan(resting(gang("a", 1, gpu=8)), now=now).bind]


def test_pods_of_a_job_that_rests_can_be_evicted_as_any_other() -> None:
    """Otherwise an owner would protect what runs by changing what waits."""
    hers = resting(gang("a", 2, minimum=1, gpu=8, on=["n1"]))
    decided = plan(hers, gang("b", 1, gpu=8, priority=5))
    assert ["ns/a-0"] == [evict.task for evict in decided.evict]
