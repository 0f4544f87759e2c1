"""The cluster after a plan is carried out."""

from __future__ import annotations

from msgspec.structs import replace
from tests.support.facts import facts, lost_of
from tests.support.subgroups import divided

from maar.model.facts import Lost
from maar.model.jobs import Phase
from maar.model.outcome import carry_out
from maar.model.plan import Admit, Bind, Elect, Evict, Lock, Nominate, Plan
from maar.model.snapshot import Budget, Cluster
from maar.model.tasks import Status, Task
from maar.testing.builders import cluster, gang, node


def task(of: Cluster, key: str) -> Task:
    (found,) = [t for t in of.tasks if t.key == key]
    return found


def phases(of: Cluster) -> dict[str, str]:
    return {job.key: job.phase.value for job in of.jobs}


def test_bound_pods_run_from_now_on() -> None:
    after = carry_out(cluster(node("n1"), gang("a")), Plan(bind=(Bind("ns/a-0", "n1"),)), 7.0)
    a = task(after, "ns/a-0")
    assert (Status.BOUND, "n1", 7.0) == (a.status, a.node, a.started)
    assert {"ns/a": "Running"} == phases(after)


def test_evicted_and_leaving_pods_are_gone() -> None:
    made = gang("a", 3, on=["n1"] * 3)
    before = cluster(
        node("n1"), replace(made, tasks=(replace(made.tasks[0], status=Status.RELEASING), *made.tasks[1:]))
    )
    after = carry_out(before, Plan(evict=(Evict("ns/a-1", "ns/b", "why"),)), 0.0)
    assert ["ns/a-2"] == [t.key for t in after.tasks]


def test_promises_are_what_the_plan_says_and_nothing_else() -> None:
    made = gang("a", 3)
    promised = tuple(replace(t, status=Status.NOMINATED, node="n1") for t in made.tasks[:2])
    before = cluster(node("n1"), node("n2"), replace(made, tasks=(*promised, made.tasks[2])))
    after = carry_out(before, Plan(nominate=(Nominate("ns/a-0", "n1"), Nominate("ns/a-2", "n2"))), 0.0)
    assert [(Status.NOMINATED, "n1"), (Status.PENDING, ""), (Status.NOMINATED, "n2")] == [
        (t.status, t.node) for t in after.tasks
    ]


def test_other_pods_stay_as_they_are() -> None:
    before = cluster(
        node("n1"),
        gang("runs", on=["n1"]),
        gang("done", task={"status": Status.SUCCEEDED, "node": "n1"}),
        gang("failed", task={"status": Status.FAILED, "node": "n1"}),
        gang("held", task={"status": Status.BLOCKED, "blocked": "gated"}),
    )
    assert before.tasks == carry_out(before, Plan(nominate=(Nominate("ns/held-0", "n1"),)), 5.0).tasks


def test_a_group_runs_with_its_minimum() -> None:
    before = cluster(
        node("n1"),
        gang("whole", 3, minimum=2, on=["n1"]),
        gang("part", 3, minimum=3, on=["n1"]),
        gang("none", 0, minimum=0),
        gang("pending", 1, phase=Phase.PENDING),
        gang("admitted", 1, phase=Phase.PENDING),
    )
    plan = Plan(bind=(Bind("ns/whole-1", "n1"), Bind("ns/part-1", "n1")), admit=(Admit("ns/admitted"),))
    assert {
        "ns/whole": "Running",
        "ns/part": "Inqueue",
        "ns/none": "Inqueue",
        "ns/pending": "Pending",
        "ns/admitted": "Inqueue",
    } == phases(carry_out(before, plan, 0.0))


def test_a_pod_alone_leaves_with_its_job() -> None:
    before = cluster(
        node("n1"), gang("group", on=["n1"]), gang("alone", on=["n1"], declared=False), gang("other", declared=False)
    )
    evict = (Evict("ns/group-0", "ns/x", "why"), Evict("ns/alone-0", "ns/x", "why"))
    assert {"ns/group", "ns/other"} == set(phases(carry_out(before, Plan(evict=evict), 0.0)))


def test_evictions_count_against_budgets() -> None:
    before = cluster(
        node("n1"),
        gang("a", 3, on=["n1"] * 3, task={"budgets": ("ns/b", "ns/other")}),
        Budget("ns/b", 2),
        Budget("ns/other", 1),
        Budget("ns/unused", 4),
    )
    after = carry_out(before, Plan(evict=tuple(Evict(f"ns/a-{i}", "ns/x", "why") for i in range(2))), 0.0)
    assert (Budget("ns/b", 0), Budget("ns/other", 0), Budget("ns/unused", 4)) == after.budgets


def test_elections_and_locks_are_what_the_plan_says() -> None:
    before = cluster(node("n1"), gang("a"), Elect("ns/a", 0.0), Lock("n1", "ns/a", 0.0))
    lost = Lost("ns/a", 2.0)
    plan = Plan(elect=Elect("ns/b", 3.0), locks=(Lock("n2", "ns/b", 3.0),), facts=facts(lost))
    after = carry_out(before, plan, 3.0)
    assert (plan.elect, plan.locks) == (after.elect, after.locks)
    assert (lost,) == lost_of(after)
    assert (None, ()) == (carry_out(before, Plan(), 3.0).elect, carry_out(before, Plan(), 3.0).locks)


def test_a_group_without_a_role_or_a_subgroup_of_its_minimum_does_not_run() -> None:
    roles = gang("a", roles={"w": 2, "ps": 1}, minimum=2, role_min={"ps": 1}, on=["n1"] * 2)
    parts = divided("b", [2, 2], size=2, least=2, minimum=2, on=["n1"] * 3)
    ignored = gang("c", roles={"w": 2, "ps": 1}, minimum=2, role_min={"ps": 1, "w": 2}, on=["n1"] * 2)
    after = carry_out(cluster(node("n1"), roles, parts, ignored), Plan(), 0.0)
    assert {"ns/a": "Inqueue", "ns/b": "Inqueue", "ns/c": "Running"} == phases(after)
