"""What is sent to remove gates: each removal once, and a refused one again after a while."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from maar.controller.snapshots.cycle import Cycle
from maar.controller.writing.gates import AGAIN, Gates
from maar.kube.client.errors import Invalid
from maar.kube.write.executor import Done, Failed, Outcome, Patch
from maar.model.plan import Plan, Ungate
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import QUEUE_GATE

PLAN = Plan(ungate=(Ungate("ns/a"),))


class World:
    """One pod, and the patches that were submitted for it."""

    def __init__(self) -> None:
        self.sent: list[tuple[Patch, Callable[[Outcome], None]]] = []
        self.triggered = 0
        pod = SimpleNamespace(namespace="ns", name="a", metadata=SimpleNamespace(uid="u1"))
        picture: Any = SimpleNamespace(pod=lambda key: pod)
        self._pods: Any = {"ns/a": pod.metadata}
        self.gates = Gates(picture, lambda patch, then: self.sent.append((patch, then)), self._trigger)

    def send(self, plan: Plan, now: float) -> None:
        self.gates.send(Cycle(1, now, Snapshot(Cluster()), plan, pods=self._pods))

    def _trigger(self) -> None:
        self.triggered += 1


def test_removal_is_sent_once_while_plans_name_the_pod() -> None:
    world = World()
    for now in (0.0, 1.0):
        world.send(PLAN, now)
    world.sent[0][1](Done())
    world.send(PLAN, 2.0)  # a watch has not shown it yet
    (patch, _), *more = world.sent
    assert ([], 0, None) == (more, world.triggered, world.gates.due(2.0))
    assert ("/api/v1/namespaces/ns/pods/a", "json") == (patch.path, patch.kind)
    assert [
        {"op": "test", "path": "/metadata/uid", "value": "u1"},
        {"op": "test", "path": "/spec/schedulingGates", "value": [{"name": QUEUE_GATE}]},
        {"op": "remove", "path": "/spec/schedulingGates"},
    ] == patch.body


def test_refused_removal_is_tried_again_after_a_while() -> None:
    world = World()
    world.send(PLAN, 0.0)
    world.sent[0][1](Failed(Invalid("refused")))
    world.send(PLAN, 1.0)
    assert (1, 1, 1.0 + AGAIN) == (len(world.sent), world.triggered, world.gates.due(1.0))
    world.send(PLAN, 1.0 + AGAIN)
    assert (2, None) == (len(world.sent), world.gates.due(2.0 + AGAIN))


def test_removal_that_no_plan_wants_any_more_is_forgotten() -> None:
    world = World()
    world.send(PLAN, 0.0)
    world.sent[0][1](Failed(Invalid("refused")))
    world.send(Plan(), 1.0)
    assert None is world.gates.due(1.0)
    world.send(PLAN, 2.0)
    assert 2 == len(world.sent)
