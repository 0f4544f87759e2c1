"""The snapshot: sorted tables and sums over tasks, independent of the order of the cluster's objects."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.strategies import clusters, shuffled

from maar.model.jobs import Job, Phase
from maar.model.nodes import Node
from maar.model.selectors import PodSelector, PodTerm, Requirement, Selector
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status, Task
from maar.testing.builders import Gang, cluster, gang, node, tasks

WEB = PodSelector(Selector((Requirement("app", "In", ("web",)),)))


def arrays(snapshot: Snapshot) -> dict[str, str]:
    """All arrays and lists of a snapshot, from all its tables."""
    parts = {"": snapshot, "nodes.": snapshot.nodes, "jobs.": snapshot.jobs, "tasks.": snapshot.tasks}
    parts |= {"shapes.": snapshot.shapes, "queues.": snapshot.queues}
    found: dict[str, str] = {}
    for name, part in parts.items():
        for field, value in vars(part).items():
            if isinstance(value, np.ndarray):
                found[name + field] = repr(value.tolist())
            elif isinstance(value, list | tuple | dict) and field != "_columns":
                found[name + field] = repr(value)
    return found


@settings(max_examples=100, deadline=None)
@given(clusters(), st.integers(0, 1000))
def test_the_order_of_the_cluster_does_not_matter(given: Cluster, seed: int) -> None:
    assert arrays(Snapshot(given)) == arrays(Snapshot(shuffled(given, seed)))


def placed(name: str, status: Status, on: str = "n1", gpu: int = 0) -> Gang:
    made = gang(name, gpu=gpu)
    return replace(made, tasks=tuple(replace(t, status=status, node=on) for t in made.tasks))


def test_what_tasks_take_of_nodes() -> None:
    snapshot = Snapshot(
        cluster(
            node("n1", gpu=8),
            node("n2", gpu=8),
            placed("runs", Status.BOUND, gpu=1),
            placed("leaves", Status.RELEASING, gpu=2),
            placed("promised", Status.NOMINATED, gpu=4),
            placed("done", Status.SUCCEEDED, gpu=3),
            placed("elsewhere", Status.BOUND, "gone", gpu=3),
            gang("waits", gpu=3),
        )
    )
    gpu = snapshot.axes.index["nvidia.com/gpu"]
    assert [3, 0] == snapshot.used[:, gpu].tolist()
    assert [2, 0] == snapshot.releasing[:, gpu].tolist()
    assert [4, 0] == snapshot.nominated[:, gpu].tolist()
    assert [2, 0] == snapshot.used[:, snapshot.axes.pods].tolist()


def test_what_jobs_have() -> None:
    part = gang("part", 5, minimum=4, gpu=1)
    statuses = (Status.BOUND, Status.SUCCEEDED, Status.NOMINATED, Status.RELEASING, Status.PENDING)
    given = [
        replace(t, status=status, node="" if status is Status.PENDING else "n1")
        for t, status in zip(part.tasks, statuses, strict=True)
    ]
    snapshot = Snapshot(cluster(node("n1", gpu=8), replace(part, tasks=tuple(given)), gang("zero", 0, minimum=2)))
    jobs, gpu = snapshot.jobs, snapshot.axes.index["nvidia.com/gpu"]
    assert [2, 0] == jobs.ready.tolist()
    assert [1, 0] == jobs.nominated.tolist()
    assert [2, 0] == jobs.allocated[:, gpu].tolist()
    assert [[0, 1, 2, 3, 4], []] == [m.tolist() for m in jobs.members]


def test_roles_are_numbered_over_all_jobs() -> None:
    snapshot = Snapshot(
        cluster(
            node("n1"),
            gang("a", roles={"ps": 1, "worker": 2}, on=["n1", "n1"], role_min={"worker": 1, "chief": 1}),
            gang("b", 2, on=["n1"]),
        )
    )
    jobs = snapshot.jobs
    names = [[(r.name, r.minimum) for r in roles] for roles in jobs.roles]
    assert [[("ps", 0), ("worker", 1), ("chief", 1)], [("", 0)]] == names
    assert [0, 1, 2, 3] == [r.index for roles in jobs.roles for r in roles]
    assert [0, 1, 1, 3, 3] == jobs.task_role.tolist()
    assert [1, 1, 0, 1] == jobs.role_ready.tolist()
    assert [0, 1, 1, 0] == jobs.role_min.tolist()


@pytest.mark.parametrize(
    ("what", "active"),
    [
        (gang("x"), True),
        (gang("x", on=["n1"]), False),
        (gang("x", 2, minimum=1, on=["n1"]), True),
        (gang("x", phase=Phase.PENDING, on=["n1"]), True),
        (gang("x", broken="negative minimum", on=["n1"]), True),
        (gang("x", 0, minimum=1), True),
        (gang("x", 0, minimum=1, phase=Phase.COMPLETED), False),
        (gang("x", task={"status": Status.BLOCKED}), True),
        (gang("x", task={"status": Status.NOMINATED, "node": "n1"}), True),
        (gang("x", task={"status": Status.SUCCEEDED, "node": "n1"}), False),
    ],
)
def test_which_jobs_a_cycle_looks_at(what: Gang, active: bool) -> None:
    assert ([0] if active else []) == Snapshot(cluster(node("n1"), what)).jobs.active


def test_a_nomination_to_a_deleted_node_is_void() -> None:
    snapshot = Snapshot(cluster(node("n1"), placed("x", Status.NOMINATED, "gone")))
    assert [Status.PENDING] == snapshot.tasks.status.tolist()
    assert [-1] == snapshot.tasks.node.tolist()
    assert [0] == snapshot.jobs.nominated.tolist()


def test_tasks_go_by_index_then_age_then_key() -> None:
    of = gang("j", 1).tasks[0].shape
    given = [
        Task("ns/b", "ns/j", of, index=1),
        Task("ns/d", "ns/j", of, index=0, created=5.0),
        Task("ns/c", "ns/j", of, index=0, created=1.0),
        Task("ns/a", "ns/j", of, index=0, created=5.0),
    ]
    snapshot = Snapshot(Cluster(tasks=tuple(given), jobs=(Job("ns/j"),)))
    assert ["ns/c", "ns/a", "ns/d", "ns/b"] == [t.key for t in snapshot.tasks.tasks]


def test_a_worker_of_ten_comes_after_nine() -> None:
    of = gang("j", 1).tasks[0].shape
    snapshot = Snapshot(Cluster(tasks=tasks("ns/j", 12, of)[::-1], jobs=(Job("ns/j"),)))
    assert [f"ns/j-{i}" for i in range(12)] == [t.key for t in snapshot.tasks.tasks]


def test_default_pays_for_a_job_of_an_unknown_queue() -> None:
    """Other schedulers' pods are in no queue."""
    snapshot = Snapshot(cluster(gang("a", queue="nowhere"), gang("b"), gang("c", queue="")))
    default = snapshot.queues.number["default"]
    assert [default, default, -1] == snapshot.jobs.queue.tolist()
    assert [True, False, True] == snapshot.jobs.refused.tolist()


def test_features_of_pods_on_their_nodes() -> None:
    apart = PodTerm(WEB, "kubernetes.io/hostname")
    web = {"matches": (WEB,), "anti_affinity": (apart,)}
    there = gang("web", 3, constraints=web, on=["n1", "n1", "n2"])
    leaving = replace(there.tasks[1], status=Status.RELEASING)
    snapshot = Snapshot(
        cluster(node("n1"), node("n2"), replace(there, tasks=(there.tasks[0], leaving, there.tasks[2])), gang("plain"))
    )
    assert {WEB: 0, apart: 1} == snapshot.shapes.feature
    assert [[2, 1], [2, 1]] == snapshot.features.tolist()
    assert [[1, 0], [1, 0]] == snapshot.leaving.tolist()


def test_every_resource_that_anything_mentions_is_a_dimension() -> None:
    given = cluster(
        Node("n1", {"example.com/fpga": 1}),
        gang("a", min_resources={"example.com/licence": 1}),
        gang("b", constraints={"resources": {"example.com/nic": 1}}),
    )
    names = Snapshot(given).axes.names
    assert ("example.com/fpga", "example.com/licence", "example.com/nic") == names[4:]


def test_an_empty_cluster() -> None:
    snapshot = Snapshot(Cluster())
    assert (0, 0, 0) == (len(snapshot.nodes), len(snapshot.tasks), len(snapshot.jobs))
    assert [] == snapshot.jobs.active
