"""A job's place: who is ahead, and which plugin put them there."""

from __future__ import annotations

import pytest
from tests.support import confs

from maar.config.config import Config
from maar.config.file import default_config
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog
from maar.testing.builders import cluster, gang, node
from maar.testing.scenario import configured, cycles
from maar.whatif.place import Ahead, Place, place_of

DEFAULT = default_config(catalog())


def place(scene: Cluster, config: Config = DEFAULT, job: str = "ns/mine") -> Place:
    found = place_of(Snapshot(scene), config, 100.0, job)
    assert found is not None
    return found


def by(ahead: tuple[Ahead, ...]) -> list[tuple[str, str]]:
    return [(one.name, one.by) for one in ahead]


def test_the_first_plugin_that_distinguishes_two_jobs_is_named() -> None:
    scene = cluster(
        node("n1", gpu=8),
        gang("broken", 2, gpu=1, on=["n1"], created=60.0),
        gang("high", gpu=8, priority=5, created=70.0),
        gang("soon", gpu=8, sla=120.0, created=50.0),
        gang("older", gpu=8, created=10.0),
        gang("mine", gpu=8, created=20.0),
        gang("b-same", gpu=8, created=20.0),
        gang("younger", gpu=8, created=30.0),
    )
    found = place(scene)
    expected = [
        ("ns/broken", "allocate"), ("ns/high", "priority"), ("ns/soon", "sla"), ("ns/older", "created"),
        ("ns/b-same", "name"),
    ]  # fmt: skip
    assert expected == by(found.ahead)
    assert (6, 7) == (found.number, found.waiting)
    assert "higher priority" == found.ahead[1].words


def test_surplus_goes_behind_jobs_that_lack_their_minimum() -> None:
    scene = cluster(node("n1", gpu=1), gang("mine", 3, gpu=1, minimum=1, on=["n1"]), gang("other", gpu=1, created=9.0))
    assert [("ns/other", "gang")] == by(place(scene).ahead)


def test_the_job_with_the_smaller_share_goes_first() -> None:
    config = configured('actions: "allocate"\ntiers:\n- plugins:\n  - {name: drf}\n')
    scene = cluster(node("n1", gpu=4), gang("mine", 2, gpu=2, on=["n1"]), gang("other", gpu=4, created=9.0))
    # The gang plugin is missing: no job is completed first.
    assert [("ns/other", "drf")] == by(place(scene, config).ahead)


def test_queues_that_go_first() -> None:
    scene = cluster(
        node("n1", gpu=8),
        Queue("busy"),
        Queue("idle"),
        Queue("empty"),
        gang("on", gpu=2, on=["n1"], queue="busy"),
        gang("other", gpu=8, queue="idle"),
        gang("mine", gpu=8, queue="busy"),
    )
    found = place(scene)
    assert [("idle", "proportion")] == by(found.queues_ahead), "queues without waiting jobs are not named"
    assert (1, ()) == (found.number, found.ahead)
    assert [] == by(place(scene, job="ns/other").queues_ahead)


def test_queues_by_capacity() -> None:
    scene = cluster(
        node("n1", gpu=8), Queue("first", priority=3), Queue("second"), gang("other", gpu=8, queue="first"),
        gang("mine", gpu=8, queue="second"),
    )  # fmt: skip
    assert [("first", "capacity")] == by(place(scene, configured(confs.CAPACITY_GUIDE)).queues_ahead)


def test_namespaces_that_go_first() -> None:
    config = configured(
        'actions: "allocate"\ntiers:\n- plugins:\n  - {name: gang}\n  - {name: drf, enableNamespaceOrder: true}\n'
    )
    scene = cluster(node("n1", gpu=8), gang("on", gpu=2, on=["n1"]), gang("mine", gpu=8), gang("them/a", gpu=8))
    assert [("them", "drf")] == by(place(scene, config).namespaces_ahead)


@pytest.mark.parametrize(
    "job", [gang("mine", on=["n1"]), gang("mine", queue="typo"), gang("mine", broken="spec.minMember: bad")]
)
def test_a_job_that_is_not_in_the_order_has_no_place(job: object) -> None:
    assert place_of(Snapshot(cluster(node("n1"), job)), DEFAULT, 100.0, "ns/mine") is None  # type: ignore[arg-type]


def test_jobs_start_in_this_order() -> None:
    """With room for one job in each cycle, the place is the number of the cycle in which it starts."""
    jobs = [gang(f"j{i}", gpu=1, priority=i * 7 % 3, created=float(i * 5 % 4)) for i in range(6)]
    places = {job.job.key: place(cluster(node("n0", gpu=0), jobs), job=job.job.key).number for job in jobs}
    started: dict[str, int] = {}
    for room in range(1, 7):
        plans: list[Plan]
        plans, _ = cycles(cluster(node("n1", gpu=room), jobs), configured(confs.ALLOCATE), 1)
        for bind in plans[0].bind:
            started.setdefault(bind.task.removesuffix("-0"), room)
    assert places == started
