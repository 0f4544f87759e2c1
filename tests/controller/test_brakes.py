"""Brakes: evictions paused, capped or off by queue, all or nothing for each job that they are for."""

from __future__ import annotations

from maar.controller.brakes import Brakes, Settings
from maar.decide import decide
from maar.model.plan import Plan
from maar.model.snapshot import Snapshot
from maar.registry import catalog
from maar.session.config_file import default_config
from maar.testing.builders import cluster, gang, node

CONFIG = default_config(catalog())


def two_claims() -> tuple[Plan, Snapshot]:
    """Two gangs of high priority, each of which needs a gang of two pods gone."""
    snapshot = Snapshot(
        cluster(
            [node(f"n{i}", gpu=8) for i in range(2)],
            [gang(f"low{i}", 2, gpu=4, on=[f"n{i}"] * 2, priority=1) for i in range(2)],
            [gang(f"high{i}", 1, gpu=8, priority=9) for i in range(2)],
        )
    )
    plan = decide(snapshot, CONFIG, 100.0)
    assert len(plan.evict) == 4
    return plan, snapshot


def test_without_brakes_everything_passes() -> None:
    plan, snapshot = two_claims()
    assert Brakes().apply(plan, snapshot, 100.0) is plan


def test_paused_nothing_is_evicted_and_nothing_promised() -> None:
    plan, snapshot = two_claims()
    brakes = Brakes(Settings(paused=True))
    held = brakes.apply(plan, snapshot, 100.0)
    assert ((), ()) == (held.evict, held.nominate)
    assert 4 == brakes.held


def test_a_rate_lets_whole_claims_through_and_says_when_the_next_may() -> None:
    plan, snapshot = two_claims()
    brakes = Brakes(Settings(per_minute=3))
    first = brakes.apply(plan, snapshot, 100.0)
    assert 2 == len(first.evict)
    assert 1 == len({e.beneficiary for e in first.evict})
    assert [first.evict[0].beneficiary] == [n.task.rsplit("-", 1)[0] for n in first.nominate]
    assert 160.0 == first.wake_at
    assert 2 == len(brakes.apply(plan, snapshot, 161.0).evict)


def test_a_claim_larger_than_the_rate_passes_alone() -> None:
    plan, snapshot = two_claims()
    assert 2 == len(Brakes(Settings(per_minute=1)).apply(plan, snapshot, 100.0).evict)
    assert () == Brakes(Settings(per_minute=0)).apply(plan, snapshot, 100.0).evict


def test_a_queue_can_be_left_out() -> None:
    plan, snapshot = two_claims()
    assert () == Brakes(Settings(queues_off=("default",))).apply(plan, snapshot, 100.0).evict
    assert 4 == len(Brakes(Settings(queues_off=("other",))).apply(plan, snapshot, 100.0).evict)


def test_settings_change_while_running() -> None:
    plan, snapshot = two_claims()
    brakes = Brakes(Settings(paused=True))
    assert () == brakes.apply(plan, snapshot, 100.0).evict
    brakes.settings = Settings()
    assert 4 == len(brakes.apply(plan, snapshot, 101.0).evict)
