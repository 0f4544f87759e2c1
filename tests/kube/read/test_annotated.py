"""What owners annotate for `tdm` and `task-topology`: a malformed wish is a problem, and the job is scheduled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from maar.model.jobs import Job, JobBudget, TaskTopology
from maar.model.snapshot import Cluster

Load = Callable[..., Cluster]
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p, %s}, spec: {containers: [{name: c}]}}"
GROUP = "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g, %s}, spec: {minMember: 1}}"


def job(load: Load, notes: str) -> Job:
    (made,) = load(GROUP % f"annotations: {{{notes}}}").jobs
    assert "" == made.broken
    return made


@pytest.mark.parametrize(
    ("notes", "revocable", "yields"),
    [
        ("labels: {a: b}", False, False),
        ("annotations: {volcano.sh/revocable-zone: '*'}", True, False),
        ("annotations: {volcano.sh/preemptable: 'true'}", True, True),
        ("annotations: {volcano.sh/preemptable: 'false'}", False, False),
        ("annotations: {volcano.sh/preemptable: 'true', volcano.sh/revocable-zone: 'rz1'}", False, True),
        ("annotations: {volcano.sh/preemptable: 'false', volcano.sh/revocable-zone: '*'}", True, False),
        # As in Volcano, a label says that a pod is preemptable, but not that it may use revocable nodes.
        ("labels: {volcano.sh/preemptable: 'true'}", False, True),
    ],
)
def test_pods_that_may_use_revocable_nodes(load: Load, notes: str, revocable: bool, yields: bool) -> None:
    (task,) = load(POD % notes).tasks
    assert (revocable, yields) == (task.shape.revocable, task.yields)


def test_a_group_says_that_the_whole_job_is_preemptable(load: Load) -> None:
    assert job(load, "volcano.sh/preemptable: 'true'").yields
    assert not job(load, "volcano.sh/preemptable: 'false'").yields
    assert not job(load, "").yields
    (labelled,) = load(GROUP % "labels: {volcano.sh/preemptable: 'true'}").jobs
    assert labelled.yields


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ("", None),
        ("volcano.sh/jdb-min-available: '2'", JobBudget(2)),
        ("volcano.sh/jdb-min-available: '30%'", JobBudget(30, percent=True)),
        ("volcano.sh/jdb-max-unavailable: '1'", JobBudget(1, stays=False)),
        ("volcano.sh/jdb-max-unavailable: '1', volcano.sh/jdb-min-available: '2'", JobBudget(2)),
    ],
)
def test_the_budget_of_a_job(load: Load, notes: str, expected: JobBudget | None) -> None:
    assert expected == job(load, notes).budget


@pytest.mark.parametrize("text", ["some", "-1", "101%", "1.5", "%", "9" * 10, "x" * 5000])
def test_a_malformed_budget_is_a_problem_and_no_more(load: Load, text: str) -> None:
    budget = job(load, f"volcano.sh/jdb-max-unavailable: '{text}'").budget
    assert budget is not None
    assert budget.problem.startswith("`volcano.sh/jdb-max-unavailable`: expected a whole number or a percentage, got")
    assert len(budget.problem) <= 200


AFFINITY, APART, ORDER = (f"volcano.sh/task-topology-{name}" for name in ("affinity", "anti-affinity", "task-order"))


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ("", None),
        (f"{AFFINITY}: ''", None),
        (f"{AFFINITY}: 'ps,worker;chief'", TaskTopology((("ps", "worker"), ("chief",)))),
        (f"{APART}: 'ps'", TaskTopology((), (("ps",),))),
        (f"{ORDER}: 'ps, worker,'", TaskTopology(order=("ps", "worker"))),
        (f"{AFFINITY}: 'ps,;;'", TaskTopology((("ps", ""),))),
        (f"{AFFINITY}: 'ps,ps'", TaskTopology(problem=f"`{AFFINITY}`: role `ps` is named twice in one list")),
        (f"{ORDER}: 'ps;w'", TaskTopology(problem=f"`{ORDER}`: expected one list of roles, separated by commas")),
        (f"{APART}: '{'x' * 1001}'", TaskTopology(problem=f"`{APART}`: 1001 characters, expected at most 1000")),
    ],
)
def test_the_task_topology_of_a_job(load: Load, notes: str, expected: TaskTopology | None) -> None:
    assert expected == job(load, notes).task_topology
