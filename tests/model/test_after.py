"""A snapshot made from the one before is equal to a snapshot made from scratch."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from maar.config.file import default_config
from maar.decide import decide
from maar.model.jobs import PER_JOB, PER_ROLE
from maar.model.selectors import PodSelector, PodTerm, Requirement, Selector
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import PER_TASK, Status
from maar.registry import catalog
from maar.session.resizing.workers import elastic_of
from maar.testing.builders import Gang, cluster, elastic, gang, node, shape

CONFIG = default_config(catalog())
APART = PodTerm(PodSelector(Selector((Requirement("app", "In", ("x",)),)), ("ns",)), "kubernetes.io/hostname")


def some_gang(name: str, rng: random.Random) -> Gang:
    """A random gang: partly bound, releasing, nominated, with roles, or with anti-affinity to itself."""
    shapes = [{}, {"anti_affinity": (APART,), "matches": (APART.pods,)}]
    made = gang(
        name,
        roles={"a": rng.randint(0, 2), "b": rng.randint(0, 2)},
        cpu=rng.choice([0, 1, 2]),
        memory=0,
        gpu=rng.choice([0, 1]),
        priority=rng.randint(0, 2),
        role_min=rng.choice([{}, {"b": 1, "c": 1}]),
        constraints=rng.choice(shapes),
    )
    tasks = []
    for task in made.tasks:
        status = rng.choice(list(Status))
        where = rng.choice(["n0", "n1", "gone"]) if status in (Status.NOMINATED, Status.BOUND, Status.RELEASING) else ""
        tasks.append(replace(task, status=status, node=where))
    return Gang(made.job, tuple(tasks))


def assert_same(expected: Snapshot, actual: Snapshot) -> None:
    assert [j.key for j in expected.jobs.jobs] == [j.key for j in actual.jobs.jobs]
    assert [j.index for j in expected.jobs.jobs] == [j.index for j in actual.jobs.jobs]
    assert expected.tasks.tasks == actual.tasks.tasks
    assert expected.jobs.active == actual.jobs.active
    assert [list(m) for m in expected.jobs.members] == [list(m) for m in actual.jobs.members]
    assert list(expected.jobs.roles) == list(actual.jobs.roles)
    for name in (*PER_JOB, *PER_ROLE, "task_role"):
        np.testing.assert_array_equal(getattr(expected.jobs, name), getattr(actual.jobs, name), name)
    for name in (*PER_TASK, "job"):
        if name != "shape":
            np.testing.assert_array_equal(getattr(expected.tasks, name), getattr(actual.tasks, name), name)
    shapes = [actual.shapes.shapes[s] for s in actual.tasks.shape]
    assert [expected.shapes.shapes[s] for s in expected.tasks.shape] == shapes
    for name in ("used", "releasing", "nominated"):
        np.testing.assert_array_equal(getattr(expected, name), getattr(actual, name), name)
    for feature, number in expected.shapes.feature.items():
        known = actual.shapes.feature[feature]
        np.testing.assert_array_equal(expected.features[number], actual.features[known])
        np.testing.assert_array_equal(expected.leaving[number], actual.leaving[known])


@pytest.mark.parametrize("seed", range(40))
def test_following_snapshots_equal_new_ones(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [node(f"n{i}", cpu=8, gpu=4) for i in range(3)]
    gangs = {f"ns/g{i}": some_gang(f"g{i}", rng) for i in range(rng.randint(0, 8))}
    snapshot = Snapshot(cluster(nodes, gangs.values()))
    for _ in range(5):
        names = [f"g{rng.randint(0, 12)}" for _ in range(rng.randint(0, 4))]
        changed = {f"ns/{name}": None if rng.random() < 0.3 else some_gang(name, rng) for name in names}
        for key, one in changed.items():
            if one is None:
                gangs.pop(key, None)
            else:
                gangs[key] = one
        rest = Cluster(nodes=tuple(nodes))
        given = {key: None if one is None else (one.job, one.tasks) for key, one in changed.items()}
        following = snapshot.after(rest, given)
        assert following is not None
        fresh = Snapshot(cluster(nodes, gangs.values()))
        assert_same(fresh, following)
        assert decide(fresh, CONFIG, 10.0) == decide(following, CONFIG, 10.0)
        snapshot = following


@pytest.mark.parametrize(
    ("of_job", "of_elastic"),
    [
        ({}, {"remaining": 5.0, "speedup": ((1, 1.0), (2, 1.5))}),
        ({}, {"size": 1, "max": 3}),
        ({}, {"beside": (shape(cpu=2),)}),
        ({}, {"shape": shape(cpu=2, gpu=1)}),
        ({"priority": 3}, {"remaining": 5.0}),
        ({"min_member": 2, "role_min": {"worker": 1}}, {"remaining": 5.0}),
        ({"broken": "it makes no sense"}, {}),
    ],
)
def test_changes_of_elastic_fields_only(of_job: dict[str, Any], of_elastic: dict[str, Any]) -> None:
    nodes = [node("n0", cpu=8, gpu=4)]
    runs, waits, rigid = elastic("b", 1, 4, on=["n0", "n0"]), elastic("c", 1, 4), gang("a", 2, gpu=1)
    snapshot = Snapshot(cluster(nodes, [runs, waits, rigid]))
    snapshot.jobs.number, snapshot.jobs.active, snapshot.jobs.elastic  # noqa: B018 - looked at, and so kept
    after = [
        Gang(replace(one.job, **of_job, elastic=replace(elastic_of(one.job), **of_elastic)), one.tasks)
        for one in (runs, waits)
    ]
    following = snapshot.after(Cluster(nodes=tuple(nodes)), {one.job.key: (one.job, one.tasks) for one in after})
    assert following is not None
    fresh = Snapshot(cluster(nodes, [*after, rigid]))
    assert_same(fresh, following)
    assert (fresh.jobs.jobs, fresh.jobs.elastic) == (following.jobs.jobs, following.jobs.elastic)
    assert decide(fresh, CONFIG, 10.0) == decide(following, CONFIG, 10.0)
    assert [runs.job.elastic, waits.job.elastic] == [job.elastic for job in snapshot.jobs.jobs[1:]], "unchanged"


def test_a_new_resource_needs_a_new_snapshot() -> None:
    snapshot = Snapshot(cluster(node("n0"), gang("a", 1)))
    odd = gang("b", 1, constraints={"resources": {"example.com/fpga": 1}})
    assert snapshot.after(Cluster(), {"ns/b": (odd.job, odd.tasks)}) is None
