"""Writes that need room in a limited queue wait until the writes that free it are answered."""

from __future__ import annotations

from typing import Any

import pytest

from maar.controller.writing.limits import LimitedWrites
from maar.model.elastic import Past
from maar.model.plan import Bind, Evict, Plan, Resize, Resume, Suspend
from maar.model.queues import Queue
from maar.model.snapshot import Snapshot
from maar.testing.builders import GPU, cluster, elastic, gang, node


class Scene:
    """A queue with a limit of 8 GPUs, below a parent with one of 12; 6 GPUs run in it, and 4 beside it."""

    def __init__(self, limit: int = 8) -> None:
        queues = Queue("all", capability={GPU: 12}), Queue("mine", parent="all", capability={GPU: limit}), Queue("free")
        runs = gang("low", 3, gpu=2, on=["a"] * 3, queue="mine"), gang("other", 2, gpu=2, on=["b"] * 2, queue="all")
        waits = gang("high", 2, gpu=2, queue="mine"), gang("apart", 1, gpu=2, queue="free")
        scene = Snapshot(cluster(node("a", gpu=8), node("b", gpu=8), *queues, *runs, *waits))
        self.scene = scene
        self.sent: list[str] = []
        self.limited = LimitedWrites(
            lambda pod, uid, to: self.sent.append(f"{pod} to {to}"),
            lambda pod: self.sent.append(f"drop {pod}"),
            lambda job, may: self.sent.append(f"{job} {'may' if may else 'may not'} grow"),
        )
        tasks = self.scene.tasks.tasks
        self.names = {
            name: [t.key for t in tasks if t.job.endswith(name)] for name in ("low", "other", "high", "apart")
        }

    def decide(self, victims: list[str]) -> list[str]:
        """A plan that binds all waiting pods for these victims; returns the pods that are bound at once."""
        pods = [*self.names["high"], *self.names["apart"]]
        jobs = {t.key: t.job for t in self.scene.tasks.tasks}
        evict = tuple(Evict(victim, jobs[self.names["high"][0]], "because") for victim in victims)
        self.limited.take(Plan(bind=tuple(Bind(pod, "b") for pod in pods), evict=evict), self.scene)
        return [pod for pod in pods if not self.limited.holds(pod, "uid", "b")]


def test_binds_wait_for_the_evictions_that_their_queue_needs() -> None:
    scene = Scene()
    low = scene.names["low"]
    assert scene.names["apart"] == scene.decide(low), "a queue without a limit does not wait"
    assert ({"b"}, frozenset(scene.names["high"])) == (scene.limited.nodes(), scene.limited.pods())
    for victim in low[:2]:
        scene.limited.evicted(victim, accepted=True)
    assert [] == scene.sent
    scene.limited.evicted(low[2], accepted=True)
    assert [f"{pod} to b" for pod in scene.names["high"]] == scene.sent
    assert not scene.limited.pods()


def test_a_refused_eviction_drops_them() -> None:
    scene = Scene()
    low = scene.names["low"]
    scene.decide(low)
    scene.limited.evicted(low[0], accepted=False)
    assert [f"drop {pod}" for pod in scene.names["high"]] == scene.sent
    scene.limited.evicted(low[1], accepted=True)
    assert 2 == len(scene.sent)


def test_a_refused_eviction_drops_pods_that_wait_for_their_volumes_too() -> None:
    """Their binds come later, and would not wait any more."""
    scene = Scene()
    pods = scene.names["high"]
    evict = tuple(Evict(victim, "ns/high", "because") for victim in scene.names["low"])
    scene.limited.take(Plan(bind=tuple(Bind(pod, "b") for pod in pods), evict=evict), scene.scene)
    scene.limited.evicted(scene.names["low"][0], accepted=False)
    assert [f"drop {pod}" for pod in pods] == scene.sent


def test_nothing_waits_if_the_limit_holds_with_the_victims() -> None:
    scene = Scene(limit=10)
    # 6 + 4 are within the queue; but its parent has 12, of which 10 are used.
    assert scene.names["apart"] == scene.decide(scene.names["low"])
    beside = Scene(limit=10)
    assert scene.names["apart"] == beside.decide(beside.names["other"]), "the parent's limit counts too"
    alone = Scene(limit=100)
    assert [*alone.names["high"], *alone.names["apart"]] == alone.decide([])


def test_victims_of_an_earlier_plan_count_until_they_are_answered() -> None:
    scene = Scene()
    low = scene.names["low"]
    scene.limited.take(Plan(evict=tuple(Evict(victim, "default/high", "because") for victim in low)), scene.scene)
    assert scene.names["apart"] == scene.decide([])
    for victim in low:
        scene.limited.evicted(victim, accepted=True)
    assert 2 == len(scene.sent)


class ElasticScene:
    """A queue with a limit of 8 GPUs, which an elastic job of 4 workers uses; a gang of 2 pods waits in it."""

    def __init__(self) -> None:
        workers = elastic("wide", 1, 4, gpu=2, on=["a"] * 4, job={"queue": "mine"})
        small = elastic("small", 1, 4, gpu=2, job={"queue": "mine"})
        parts = (node("a", gpu=8), node("b", gpu=8), Queue("mine", capability={GPU: 8}), workers, small)
        scene = Snapshot(cluster(*parts, gang("high", 2, gpu=2, queue="mine")))
        self.scene = scene
        self.sent: list[str] = []
        self.limited = LimitedWrites(
            lambda pod, uid, to: self.sent.append(f"{pod} to {to}"),
            lambda pod: self.sent.append(f"drop {pod}"),
            lambda job, may: self.sent.append(f"{job} {'may' if may else 'may not'} grow"),
        )
        self.high = tuple(t.key for t in scene.tasks.tasks if t.job.endswith("high"))
        self.wide = [t.key for t in scene.tasks.tasks if t.job.endswith("wide")]

    def take(self, **plan: Any) -> list[str]:
        """A plan; returns the pods of the gang that are bound at once."""
        self.limited.take(Plan(**plan), self.scene)
        return [bind.task for bind in plan.get("bind", ()) if not self.limited.holds(bind.task, "uid", bind.node)]

    def binds(self) -> tuple[Bind, ...]:
        return tuple(Bind(pod, "b") for pod in self.high)


SMALLER = Resize("ns/wide", 4, 2, "because", Past())
HALTED = Suspend("ns/wide", "because", Past())
STARTS = Resume("ns/small", 2, "because", Past())


@pytest.mark.parametrize("smaller", [{"resize": (SMALLER,)}, {"suspend": (HALTED,)}], ids=["shrink", "suspend"])
def test_binds_wait_until_a_smaller_size_is_written(smaller: dict[str, Any]) -> None:
    scene = ElasticScene()
    assert [] == scene.take(bind=scene.binds(), **smaller)
    scene.limited.shrunk("ns/wide", accepted=True)
    assert [f"{pod} to b" for pod in scene.high] == scene.sent


def test_a_refused_smaller_size_drops_them() -> None:
    scene = ElasticScene()
    scene.take(bind=scene.binds(), resize=(SMALLER,))
    scene.limited.shrunk("ns/wide", accepted=False)
    assert [f"drop {pod}" for pod in scene.high] == scene.sent


def test_binds_of_a_later_plan_wait_for_every_smaller_size_of_a_job() -> None:
    scene = ElasticScene()
    scene.take(resize=(SMALLER,))
    scene.take(resize=(Resize("ns/wide", 2, 1, "because", Past()),))
    assert [] == scene.take(bind=scene.binds())
    scene.limited.shrunk("ns/wide", accepted=True)
    assert [] == scene.sent, "the second size is not written yet"
    scene.limited.shrunk("ns/wide", accepted=True)
    assert [f"{pod} to b" for pod in scene.high] == scene.sent


@pytest.mark.parametrize("accepted", [True, False])
def test_a_job_starts_when_the_evictions_in_its_queue_are_accepted(accepted: bool) -> None:
    scene = ElasticScene()
    victims = scene.wide[2:]
    scene.take(evict=tuple(Evict(victim, "ns/small", "because") for victim in victims), resume=(STARTS,))
    assert scene.limited.holds_job("ns/small")
    for victim in victims:
        scene.limited.evicted(victim, accepted=accepted)
    assert [f"ns/small {'may' if accepted else 'may not'} grow"] == scene.sent
    assert not scene.limited.holds_job("ns/small")
