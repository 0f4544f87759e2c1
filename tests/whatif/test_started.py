"""How far a job is after a plan, compared with the cluster after the plan is carried out."""

from __future__ import annotations

import pytest
from hypothesis import given, note, settings
from tests.support import confs
from tests.support.strategies import clusters, described, short
from tests.support.subgroups import divided

from maar.config.file import default_config
from maar.model.jobs import Phase
from maar.model.outcome import carry_out
from maar.model.plan import Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.registry import catalog
from maar.testing.builders import cluster, elastic, gang, node
from maar.testing.scenario import configured
from maar.whatif.answer import decided
from maar.whatif.edit import Scene
from maar.whatif.started import PlanOutcome, Start

DEFAULT = default_config(catalog())
NOW = 10.0


def start(scene: Cluster, job: str = "ns/a", config: str = "") -> Start:
    return decided(Scene(scene, configured(config) if config else DEFAULT), NOW).outcome.of(job)


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_a_job_has_started_if_its_minimum_is_there_afterwards(scene: Cluster) -> None:
    found = decided(Scene(scene, DEFAULT), NOW)
    after = carry_out(scene, found.plan, NOW)
    note(described(scene))
    has = (Status.BOUND, Status.SUCCEEDED, Status.NOMINATED)
    for job in scene.jobs:
        if any(task.job == job.key for task in scene.tasks):
            assert found.outcome.of(job.key).ok != short(job, [t for t in after.tasks if t.job == job.key], has), (
                job.key
            )


def test_the_minimums_of_roles_count() -> None:
    """The parameter server and one worker run: two pods, but not two workers."""
    scene = cluster(node("n1"), gang("a", roles={"ps": 1, "w": 2}, on=["n1"] * 2, minimum=2, role_min={"w": 2}))
    assert Start.WAITS is PlanOutcome(Snapshot(scene), DEFAULT, Plan()).of("ns/a")
    assert Start.STARTS is start(scene)


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        (cluster(node("n1"), gang("a", on=["n1"])), Start.RUNS),
        (cluster(node("n1"), gang("a")), Start.STARTS),
        (cluster(node("n1"), gang("a", queue="typo")), Start.WAITS),
        (cluster(node("n1"), gang("a", 0, minimum=1, phase=Phase.PENDING, min_resources={"cpu": 1})), Start.ADMITTED),
        (cluster(node("n1"), gang("a", 0, minimum=1, phase=Phase.PENDING, queue="typo")), Start.WAITS),
        (cluster(node("n1"), gang("a", 0, minimum=1, broken="bad")), Start.WAITS),
        (cluster(node("n1", gpu=4), elastic("a", 1, 2)), Start.STARTS),
        (cluster(node("n1", gpu=4), elastic("a", 5, 6)), Start.WAITS),
    ],
)
def test_how_far_a_job_is(scene: Cluster, expected: Start) -> None:
    assert expected is start(scene)


def test_room_that_is_being_freed() -> None:
    scene = cluster(node("n1", gpu=4), gang("b", gpu=4, on=["n1"]), gang("a", gpu=4, priority=5))
    assert (Start.NOMINATED, Start.WAITS) == (start(scene), start(scene, "ns/b")), "`ns/b` is evicted"


def test_without_the_gang_plugin_one_pod_is_a_start() -> None:
    scene = cluster(node("n1", gpu=1), gang("a", 2, gpu=1))
    free = confs.ALLOCATE.replace("  - {name: gang}\n", "")
    assert (Start.WAITS, Start.STARTS) == (start(scene, config=confs.ALLOCATE), start(scene, config=free))


def test_subgroups_count() -> None:
    """Two subgroups of two start together. Three pods run, so one subgroup cannot work."""
    made = divided("a", [2, 2], size=2, least=2, minimum=2, tier=None, on=["n1"] * 3)
    scene = cluster(node("n1", gpu=4), made)
    assert Start.WAITS is PlanOutcome(Snapshot(scene), DEFAULT, Plan()).of("ns/a")
    assert Start.STARTS is start(scene)
    whole = divided("a", [2, 2], size=2, least=2, minimum=2, tier=None, on=["n1"] * 4)
    assert Start.RUNS is start(cluster(node("n1", gpu=4), whole))


def test_a_gang_that_lacks_a_subgroup_waits_and_more_gpus_start_it() -> None:
    """One subgroup fits beside the pod that runs; the answer to "what would start it" is not "it starts"."""
    made = divided("a", [2, 2], size=2, least=2, minimum=2, tier=None, on=["n1"] * 2)
    assert Start.WAITS is start(cluster(node("n1", gpu=3), made))
    assert Start.STARTS is start(cluster(node("n1", gpu=4), made))
