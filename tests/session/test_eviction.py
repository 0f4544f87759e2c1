"""Making room without breaking a gang: scenes that once went wrong."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from maar.config.file import default_config
from maar.model.jobs import Phase
from maar.model.plan import Bind, Elect, Lock, Plan
from maar.model.tasks import Status
from maar.registry import catalog
from maar.testing.builders import GPU, Gang, Part, cluster, gang, node, shape
from maar.testing.scenario import cycles, scene

CONFIG = default_config(catalog())
PROMISED = {"status": Status.NOMINATED, "node": "n0"}


def first(*parts: Part | list[Part]) -> Plan:
    """The first plan of a scene that then settles."""
    return scene(cluster(*parts), CONFIG)[0]


def evicted(plan: Plan) -> list[str]:
    return [e.task.removeprefix("ns/") for e in plan.evict]


def test_surplus_is_not_counted_on_two_nodes_at_once() -> None:
    """One surplus pod, on any of three nodes. The second node costs the gang, which is then evicted whole."""
    plan = first(
        [node(f"n{i}", gpu=1) for i in range(3)],
        gang("low", 3, minimum=2, gpu=1, on=["n0", "n1", "n2"]),
        gang("high", 2, gpu=1, priority=5),
    )
    assert ["low-0", "low-1", "low-2"] == evicted(plan)


def test_the_surplus_of_a_gang_that_goes_is_not_given_back() -> None:
    plan = first(
        node("n1", gpu=1),
        node("n2", gpu=2),
        gang("low", 3, minimum=2, gpu=1, on=["n2", "n2", "n1"]),
        gang("high", 2, gpu=1, priority=5),
    )
    assert ["low-0", "low-1", "low-2"] == evicted(plan)


def test_a_pod_that_was_about_to_start_is_not_evicted() -> None:
    plan = first(node("n1", gpu=4), gang("run", gpu=2, on=["n1"]), gang("low", gpu=2), gang("high", gpu=4, priority=5))
    assert ["run-0"] == evicted(plan)
    assert "GaveWay" in [r.code for w in plan.waiting if w.job == "ns/low" for r in w.reasons]


def test_a_promise_outlives_a_lock() -> None:
    """A preemptor has promised room on a node that was then locked for the elected job: it still gets the room."""
    plans, _ = cycles(
        cluster(
            node("n0", gpu=2),
            node("n1", gpu=2),
            gang("busy", gpu=1, on=["n1"], task={"preemptable": False}),
            gang("high", gpu=1, task={"status": Status.NOMINATED, "node": "n0"}),
            gang("target", 2, gpu=2),
            Elect("ns/target", -1.0),
            Lock("n0", "ns/target", -1.0),
        ),
        CONFIG,
        1,
    )
    assert (Bind("ns/high-0", "n0"),) == plans[0].bind
    assert "n0" in [lock.node for lock in plans[0].locks]


def test_promised_pods_that_ask_for_nothing_start_whole() -> None:
    """Backfill once mistook promises for running pods, and bound the rest of the gang without them."""
    made = gang("free", 3, minimum=2, cpu=0, memory=0, task={"status": Status.NOMINATED, "node": "n0"})
    plan = first(node("n0"), made)
    assert ["ns/free-0", "ns/free-1", "ns/free-2"] == [b.task for b in plan.bind]


def test_two_shapes_are_bound_as_they_were_promised() -> None:
    """Greedy packing would give the first shape the last pod slot of the only node that fits the second."""
    parts = gang("two", roles={"ps": 1, "worker": 1}, role_min={"ps": 1}, minimum=2, task={"status": Status.NOMINATED})
    ps, worker = parts.tasks
    two = replace(parts, tasks=(replace(ps, shape=shape(cpu=0, memory=0), node="n0"), replace(worker, node="n1")))
    plan = first(
        node("n0", cpu=2),
        node("n1", cpu=2, pods=2),
        gang("busy", 2, cpu=1, on=["n0", "n0"]),
        gang("other", cpu=1, on=["n1"]),
        two,
    )
    assert (Bind("ns/two-ps-0", "n0"), Bind("ns/two-worker-0", "n1")) == plan.bind


@pytest.mark.parametrize(
    "stuck",
    [
        gang("stuck", minimum=2, gpu=2, task=PROMISED),  # its other pod was deleted
        gang("stuck", gpu=2, queue="gone", task=PROMISED),
        gang("stuck", gpu=2, broken="minMember is negative: -1", task=PROMISED),
        gang("stuck", gpu=2, phase=Phase.PENDING, min_resources={GPU: 99}, task=PROMISED),
    ],
    ids=["pods", "queue", "broken", "pending"],
)
def test_a_gang_that_cannot_start_holds_no_room(stuck: Gang) -> None:
    plan = first(node("n0", gpu=2), stuck, gang("fits", gpu=2))
    assert ((Bind("ns/fits-0", "n0"),), ()) == (plan.bind, plan.nominate)
