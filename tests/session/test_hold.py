"""`maar.dev/hold`: a held job does not start, one that runs goes on, and `stop` suspends it. Then five quiet cycles."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from maar.decide import decide
from maar.model.elastic import Past
from maar.model.jobs import OnHold, Phase
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.testing.builders import Gang, cluster, elastic, gang, node
from maar.testing.scenario import configured, cycles, scene

WITH_RESIZE = configured("""
actions: "enqueue, allocate, resize, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}]
pools: [{name: default, algorithm: elastic-fifo, rate-limit: 1h, minimum-time: 1h}]
""")
VOLCANO = configured("""
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}]
""")
WAITS = "held by its owner with `maar.dev/hold`: it does not start before `maar release ns/a`"


def waits(plan: Plan) -> dict[str, list[tuple[str, str]]]:
    return {w.job: [(r.code, r.message) for r in w.reasons] for w in plan.waiting}


def held(of: Gang, how: OnHold = OnHold.START) -> Gang:
    return replace(of, job=replace(of.job, on_hold=how))


def released(before: Cluster) -> Cluster:
    return replace(before, jobs=tuple(replace(job, on_hold=OnHold.NO) for job in before.jobs))


@pytest.mark.parametrize("how", [OnHold.START, OnHold.STOP])
@pytest.mark.parametrize(
    "job",
    [
        gang("a", 2, gpu=1),
        gang("a", 2, gpu=1, phase=Phase.PENDING, min_resources={"nvidia.com/gpu": 2}),
        gang("a", 1, cpu=0, memory=0),
        gang("a", 2, gpu=1, task={"status": Status.NOMINATED, "node": "n1"}),
        elastic("a", 1, 4),
    ],
    ids=["gang", "not admitted", "best effort", "nominated", "elastic"],
)
def test_a_held_job_is_neither_admitted_nor_started_until_it_is_released(job: Gang, how: OnHold) -> None:
    before = cluster(node("n1", gpu=8), held(job, how))
    plans = scene(before, WITH_RESIZE)
    assert {"ns/a": [("Held", WAITS)]} == waits(plans[-1])
    last = plans[-1]
    assert ((), (), (), ()) == (last.bind, last.admit, last.nominate, last.resume)
    after = scene(released(before), WITH_RESIZE)
    assert any(plan.bind for plan in after), "it starts once it is released"


def test_a_job_that_runs_goes_on_and_its_new_pods_are_placed() -> None:
    """A pod of it failed, and its controller made another: without it the gang could not work."""
    job = held(gang("a", 3, gpu=1, on=["n1", "n1"]))
    plans = scene(cluster(node("n1", gpu=8), job), WITH_RESIZE)
    assert ["ns/a-2"] == [bind.task for bind in plans[0].bind]
    assert {} == waits(plans[-1])


def test_an_elastic_job_that_runs_still_changes_its_size() -> None:
    config = configured("""
actions: "allocate, resize"
tiers: [{plugins: [{name: gang}, {name: predicates}]}]
pools: [{name: default, algorithm: elastic-fifo, rate-limit: 0s, minimum-time: 0s, hysteresis: 0, restart: 0s}]
""")
    plans = scene(cluster(node("n1", gpu=8), held(elastic("a", 1, 4, on=["n1", "n1"]))), config)
    assert [("ns/a", 4)] == [(r.job, r.after) for p in plans for r in p.resize]


@pytest.mark.parametrize("low", [1, 2], ids=["elastic", "of fixed size"])
def test_stop_suspends_a_running_job_whatever_the_pool_says(low: int) -> None:
    """The pool changes nothing for an hour; the owner of the job does not wait for that."""
    job = held(elastic("a", low, 2, on=["n1", "n1"]), OnHold.STOP)
    before = cluster(node("n1", gpu=2), job, gang("b", 1, gpu=1), resized={"default": -1.0})
    plans = scene(before, WITH_RESIZE)
    assert ["ns/a"] == [s.job for s in plans[0].suspend]
    assert {"held by its owner"} == {s.why for s in plans[0].suspend}
    assert [("Held", WAITS)] == waits(plans[-1])["ns/a"]
    assert ["ns/b-0"] == [bind.task for plan in plans for bind in plan.bind], "others have its room"
    assert () == tuple(e for plan in plans for e in plan.evict)


def test_a_stopped_job_starts_again_once_it_is_released() -> None:
    before = cluster(node("n1", gpu=2), held(elastic("a", 2, 2, on=["n1", "n1"]), OnHold.STOP))
    _, stopped = cycles(before, WITH_RESIZE, 3)
    plans = scene(released(stopped), WITH_RESIZE, now=10_000.0)
    assert ["ns/a"] == [r.job for plan in plans for r in plan.resume]


@pytest.mark.parametrize("job", [gang("a", 2, gpu=1, on=["n1", "n1"]), elastic("a", 1, 2, on=["n1"], pausable=False)])
def test_stop_says_if_it_cannot_stop_a_job(job: Gang) -> None:
    plans = scene(cluster(node("n1", gpu=2), held(job, OnHold.STOP)), WITH_RESIZE)
    (reason,) = waits(plans[-1])["ns/a"]
    assert "Held" == reason[0]
    assert "goes on" in reason[1]
    assert "cannot suspend" in reason[1]
    assert not any(plan.moves for plan in plans)


def test_stop_needs_the_action_that_suspends() -> None:
    plans = scene(cluster(node("n1", gpu=2), held(elastic("a", 1, 2, on=["n1"]), OnHold.STOP)), VOLCANO)
    assert "cannot suspend" in waits(plans[-1])["ns/a"][0][1]


def test_a_job_whose_work_is_done_is_not_stopped() -> None:
    """Its operator has not reported the end yet; suspended now, it would run again."""
    job = held(elastic("a", 1, 2, on=["n1", "n1"]), OnHold.STOP)
    done = tuple(replace(task, status=Status.SUCCEEDED) for task in job.tasks)
    assert () == decide(Snapshot(cluster(node("n1", gpu=2), replace(job, tasks=done))), WITH_RESIZE, 0.0).suspend


@pytest.mark.parametrize("how", [OnHold.NO, OnHold.START])
def test_no_room_is_kept_for_a_job_that_is_held_before_its_pods_exist(how: OnHold) -> None:
    job = held(elastic("a", 2, 2, suspended=False, reserved=(("n1", 2),), past=Past(last_resize=-1.0)), how)
    config = configured("""
actions: "allocate, resize"
tiers: [{plugins: [{name: gang}, {name: predicates}]}]
""")
    plan = decide(Snapshot(cluster(node("n1", gpu=2), job)), config, 0.0)
    assert (how is OnHold.NO) == bool(plan.reserve)


def test_what_is_wrong_with_a_job_comes_before_the_hold() -> None:
    before = cluster(node("n1", gpu=2), held(gang("a", 1, gpu=1, broken="spec.x: bad")))
    assert [("Invalid", "spec.x: bad")] == waits(scene(before, VOLCANO)[-1])["ns/a"]


def test_a_held_job_asks_for_nothing_in_its_queue() -> None:
    """Queue `b` may have all of the cluster while the jobs of queue `a` are held."""
    config = configured("""
actions: "allocate"
tiers: [{plugins: [{name: gang}, {name: predicates}, {name: proportion}]}]
""")
    jobs = [held(gang(f"a{i}", 1, gpu=1, queue="a")) for i in range(4)]
    more = [gang(f"b{i}", 1, gpu=1, queue="b") for i in range(4)]
    before = cluster(node("n1", gpu=4), Queue("a"), Queue("b"), jobs, more)
    bound = {bind.task for plan in scene(before, config) for bind in plan.bind}
    assert {f"ns/b{i}-0" for i in range(4)} == bound
