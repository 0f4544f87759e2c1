"""The virtual cluster after a plan has what the next cycle must find."""

from __future__ import annotations

from tests.support.facts import facts, rounds_of

from maar.model.plan import Plan, Ungate
from maar.model.tasks import Gate, Status
from maar.sim.virtual import Virtual
from maar.testing.builders import cluster, gang, node


def test_it_remembers_when_plugins_evicted() -> None:
    virtual = Virtual.of(cluster(node("n1"), gang("a")))
    virtual.carry_out(Plan(facts=facts(rounds={"tdm": 5.0})), 5.0)
    assert {"tdm": 5.0} == rounds_of(virtual.snapshot().cluster)


def test_pods_lose_the_gates_that_a_plan_removes() -> None:
    gated = gang("a", task={"status": Status.BLOCKED, "gate": Gate.CLOSED, "blocked": "scheduling gates: the queue's"})
    virtual = Virtual.of(cluster(node("n1"), gated))
    (task,) = virtual.snapshot().tasks.tasks
    virtual.carry_out(Plan(ungate=(Ungate(task.key),)), 5.0)
    (after,) = virtual.snapshot().tasks.tasks
    assert (Status.PENDING, "") == (after.status, after.blocked)
    assert after.gate is not Gate.CLOSED
