"""Room that is reserved for pods of any job that do not exist yet: a gang that moves keeps its proven place.

`moved` leaves the busy node n1 because it fits on n2. Before its pods are created again, `late` arrives and wants n2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.plugins.test_rescheduling import NOW, TEXT, arguments, load, machine

from maar.cli.reports.plan_json import plan_data
from maar.config.config import Config
from maar.controller.settings.brakes import Brakes, BrakeSettings
from maar.decide import decide
from maar.model.jobs import Job, OnHold
from maar.model.outcome import carry_out
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.reserved import reserved_in
from maar.model.resources import CPU
from maar.model.snapshot import Cluster, Snapshot
from maar.sim.virtual import Virtual, pending_again
from maar.testing.builders import Gang, cluster, gang
from maar.testing.scenario import check_invariants, configured
from maar.views.records import State
from maar.views.tally import Tally

UNTIL = NOW + 120.0


def config(more: str = "", plugins: str = "") -> Config:
    return configured(TEXT.replace("ARGUMENTS", arguments(more)).replace("- {name: gang}", "- {name: gang}" + plugins))


CONFIG = config()
PARTS = (machine("n1"), load("n1", 0.9), machine("n2"), load("n2", 0.1))
MOVED = gang("moved", 2, cpu=3, memory="100Mi", on=["n1", "n1"], task={"controlled": True}, uid="uid-moved")
STUCK = gang("stuck", 1, cpu=4, memory="100Mi", on=["n1"], task={"preemptable": False})
LATE = gang("late", 2, cpu=5, memory="100Mi", uid="uid-late")


def step(world: Cluster, now: float, how: Config = CONFIG) -> tuple[Plan, Cluster]:
    plan = decide(Snapshot(world), how, now)
    after = carry_out(world, plan, now)
    check_invariants(world, plan, after)
    return plan, after


def with_gang(world: Cluster, of: Gang) -> Cluster:
    known = {job.key for job in world.jobs}
    jobs = world.jobs if of.job.key in known else (*world.jobs, of.job)
    return replace(world, jobs=jobs, tasks=(*world.tasks, *of.tasks))


def again(*numbers: int) -> Gang:
    """Pods of the gang that moved, created again."""
    return Gang(MOVED.job, tuple(pending_again(MOVED.tasks[i], NOW + 2) for i in numbers))


def places(plan: Plan) -> list[tuple[str, str]]:
    return sorted((bind.task.removeprefix("ns/"), bind.node) for bind in plan.bind)


def moved(how: Config = CONFIG, *more: Any) -> tuple[Plan, Cluster]:
    """The cluster after the gang has left, with the one that arrives."""
    plan, after = step(cluster(*PARTS, MOVED, STUCK, *more), NOW, how)
    assert ["ns/moved-0", "ns/moved-1"] == sorted(evict.task for evict in plan.evict)
    return plan, with_gang(after, LATE)


def test_a_gang_that_moves_keeps_its_proven_place() -> None:
    plan, world = moved()
    assert [{"job": "ns/moved", "node": "n2", "pods": 2}] == plan_data(plan)["hold"]
    assert plan.wake_at == UNTIL
    plan, world = step(world, NOW + 1)
    assert ([], ["ns/late"]) == (places(plan), [wait.job for wait in plan.waiting if wait.job == "ns/late"])
    plan, world = step(with_gang(world, again(0)), NOW + 2)
    assert ([], [("ns/moved-0", "n2")]) == (places(plan), [(n.task, n.node) for n in plan.nominate])
    assert [{"job": "ns/moved", "node": "n2", "pods": 1}] == plan_data(plan)["hold"]
    plan, world = step(with_gang(world, again(1)), NOW + 3)
    assert [("moved-0", "n2"), ("moved-1", "n2")] == places(plan)
    assert ({}, ()) == (reserved_in(plan.facts), plan.reserve), "the room is no longer reserved but used"
    for later in (4, 5, 6):
        plan, world = step(world, NOW + later)
        assert ([], ()) == (places(plan), plan.reserve)


def test_without_the_reservation_another_job_takes_the_place() -> None:
    how = config("reserve: 0s")
    plan, world = moved(how)
    assert () == plan.reserve
    assert [("late-0", "n2"), ("late-1", "n2")] == places(step(world, NOW + 1, how)[0])


def taken(world: Cluster, now: float = NOW + 1, how: Config = CONFIG) -> bool:
    return [("late-0", "n2"), ("late-1", "n2")] == places(step(world, now, how)[0])


def test_it_ends_at_its_time() -> None:
    _, world = moved()
    assert not taken(world, UNTIL - 1)
    assert taken(world, UNTIL)
    assert () == step(world, UNTIL)[0].facts[1:], "only the round is remembered"


@pytest.mark.parametrize("how", ["gone", "another of its name", "held by its owner", "the node is gone"])
def test_it_is_released(how: str) -> None:
    _, world = moved()
    changes: dict[str, Callable[[Job], Job | None]] = {
        "gone": lambda job: None,
        "another of its name": lambda job: replace(job, uid="another"),
        "held by its owner": lambda job: replace(job, on_hold=OnHold.START),
        "the node is gone": lambda job: job,
    }
    jobs = (changes[how](job) if job.key == "ns/moved" else job for job in world.jobs)
    world = replace(world, jobs=tuple(job for job in jobs if job is not None))
    if how == "the node is gone":
        world = replace(world, nodes=tuple(n for n in world.nodes if n.name != "n2"))
        assert () == decide(Snapshot(world), CONFIG, NOW + 1).reserve
    else:
        assert taken(world)


def test_its_queue_pays_for_it() -> None:
    how = config(plugins="\n  - {name: capacity}")
    _, world = moved(how, Queue("default", capability={CPU: 10_000}))
    small = tuple(replace(q, capability={CPU: 7_000}) if q.name == "default" else q for q in world.queues)
    plan = decide(Snapshot(replace(world, queues=small)), how, NOW + 1)
    assert [("ns/moved", 1)] == [(hold.job, hold.count) for hold in plan.reserve], "4 of 7 CPUs are in use"


def test_brakes_that_keep_the_gang_keep_no_room() -> None:
    snapshot = Snapshot(cluster(*PARTS, MOVED, STUCK))
    plan = Brakes(BrakeSettings(paused=True)).apply(decide(snapshot, CONFIG, NOW), snapshot, NOW)
    assert ((), (), ()) == (plan.evict, plan.reserve, plan.facts)


def test_it_shows_as_promised_room() -> None:
    _, world = moved()
    tally = Tally(Snapshot(world), Plan(), NOW + 1)
    assert State.STARTING is tally.state(tally.snapshot.jobs.number["ns/moved"])
    row = tally.snapshot.nodes.row["n2"]
    assert {"cpu": 6000, "memory": 200 * 2**20, "pods": 2} == tally.amounts(tally.reserved[row])


def test_virtual_time_has_it_too() -> None:
    """In the simulator the pods are created again at once, and another job arrives with them."""
    virtual = Virtual.of(cluster(*PARTS, MOVED, STUCK))
    virtual.carry_out(decide(virtual.snapshot(), CONFIG, NOW), NOW)
    first = replace(LATE.job, priority=9)
    virtual.put(first, tuple(replace(task, priority=9) for task in LATE.tasks))
    plan = decide(virtual.snapshot(), CONFIG, NOW + 1)
    assert [("moved-0", "n2"), ("moved-1", "n2")] == places(plan)


def test_room_of_an_older_job_of_the_same_name_is_ignored() -> None:
    """Also if it ends later, and is for other pods."""
    _, world = moved()
    (fact,) = (fact for fact in world.facts if fact.name == "reserved")
    place = {**fact.value["places"][0], "requests": [["cpu", 1], ["pods", 1]]}
    older = replace(fact, uid="older", value={"until": UNTIL + 99, "places": [place]})
    plan = decide(Snapshot(replace(world, facts=(*world.facts, older))), CONFIG, NOW + 1)
    assert [("ns/moved", "n2", 2)] == [(hold.job, hold.node, hold.count) for hold in plan.reserve]
