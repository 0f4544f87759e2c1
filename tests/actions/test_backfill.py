"""backfill: pods that request nothing, on any free pod slot; gangs of them start whole."""

from __future__ import annotations

from tests.support.confs import ALLOCATE, BACKFILL

from maar.testing.builders import Gang, cluster, gang, node
from maar.testing.scenario import configured, scene

CONFIG = configured(BACKFILL)


def modest(name: str, count: int, **fields: object) -> Gang:
    return gang(name, count, cpu=0, memory=0, **fields)  # type: ignore[arg-type]


def test_best_effort_pods_are_placed_by_backfill_only() -> None:
    scenery = cluster(node("n1", cpu=1), gang("full", 1, cpu=1, on=["n1"]), modest("a", 1))
    assert [b.task for b in scene(scenery, CONFIG)[0].bind] == ["ns/a-0"]
    assert scene(scenery, configured(ALLOCATE))[0].bind == ()


def test_a_gang_of_best_effort_pods_starts_whole() -> None:
    assert scene(cluster(node("n1", pods=2), modest("a", 3)), CONFIG)[0].bind == ()
    assert len(scene(cluster(node("n1", pods=3), modest("a", 3)), CONFIG)[0].bind) == 3


def test_a_gang_of_both_kinds_starts_whole() -> None:
    """One worker that requests a CPU and a launcher that requests nothing need two slots."""
    worker, launcher = gang("a", roles={"worker": 1}, minimum=2), modest("a", 1, roles={"launcher": 1})
    both = Gang(worker.job, (*worker.tasks, *launcher.tasks))
    assert scene(cluster(node("n1", pods=1), both), CONFIG)[0].bind == ()
    assert len(scene(cluster(node("n1", pods=2), both), CONFIG)[0].bind) == 2


def test_surplus_best_effort_pods_follow_a_running_gang() -> None:
    worker, helper = gang("a", roles={"worker": 1}, minimum=1), modest("a", 1, roles={"helper": 2})
    both = Gang(worker.job, (*worker.tasks, *helper.tasks))
    plans = scene(cluster(node("n1"), both), CONFIG)
    assert {b.task for b in plans[0].bind} == {"ns/a-worker-0", "ns/a-helper-0", "ns/a-helper-1"}
