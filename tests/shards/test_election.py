"""Nodes of several shards are locked for one elected job: the first in the order of the whole cluster."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.shards import check_step, electing
from tests.support.simulated_shards import Shards

from maar.config.file import default_config
from maar.model.plan import Elect, Lock
from maar.model.queues import Queue
from maar.model.selectors import NodeTerm, Requirement
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.registry import catalog
from maar.shards.map import ShardMap
from maar.shards.shard import Lend, Standing, Step, step
from maar.shards.slots import slot_of
from maar.shards.wants import DEADLINE, ELECTED, FIRST_PAUSE, Pause, Want
from maar.testing.builders import Gang, cluster, gang, node, shape, tasks

CONFIG = electing(default_config(catalog()))
"""Without `proportion`: each of three queues would have one of three nodes. Jobs are elected without a wait."""
NOW = 100.0
SLOTS = {slot_of(name): shard for shard, name in enumerate("abc")} | {
    slot_of(name): shard for shard, name in enumerate(("red", "blue", "green"))
}
OWNERS = ShardMap(3, tuple(SLOTS.get(slot, 0) for slot in range(256)), epochs={0: 1, 1: 1, 2: 1})
"""Shard 0 has node `a` and queue `red`, shard 1 `b` and `blue`, shard 2 `c` and `green`."""
QUEUES = (Queue("red"), Queue("blue"), Queue("green"))
NODES = tuple(node(name, gpu=4) for name in "abc")
STAYS = {"preemptable": False}


def taken(of: Cluster, shard: int, owners: ShardMap = OWNERS, now: float = NOW, **known: Any) -> Step:
    uses = frozenset(n.name for n in of.nodes if owners.owner_of(n.name) == shard)
    queues = frozenset(queue.name for queue in of.queues if owners.shard_of(queue.name) == shard)
    return step(Snapshot(of), CONFIG, now, Standing(frozenset({shard}), owners, uses, queues, **known))


def want(job: str, shard: int, nodes: str, **fields: Any) -> Want:
    """Of an elected job."""
    made = Want(shard, f"ns/{job}", "", 0, 0.0, tuple(nodes.split()), NOW + ELECTED, elected=90.0)
    return replace(made, **fields)


def busy(*nodes: str, gpu: int = 1) -> Gang:
    """A pod on each of these nodes, of a job that stays."""
    return gang("busy", len(nodes), minimum=1, gpu=gpu, on=list(nodes), queue="red", task=STAYS)


def large(name: str, queue: str, created: float = 1.0, **more: Any) -> Gang:
    return gang(name, 3, gpu=4, queue=queue, created=created, task=STAYS, **more)


def locks(of: Step) -> dict[str, str]:
    return {lock.node: lock.job for lock in of.plan.locks}


def elected_of(of: Step) -> list[Want]:
    return [w for w in of.wants if w.elected is not None]


def test_the_want_of_an_elected_job_names_its_locks_on_nodes_of_any_shard() -> None:
    scene = cluster(NODES, QUEUES, busy("a"), large("big", "red"))
    first = taken(scene, 0)
    assert first.plan.elect is not None
    assert "ns/big" == first.plan.elect.job
    (made,) = elected_of(first)
    assert (0, NOW, NOW + ELECTED) == (made.shard, made.elected, made.deadline)
    assert made.nodes in (("b",), ("c",)), "the node with most idle room, of any shard"
    assert set(made.nodes) == locks(first).keys()


def test_each_owner_locks_its_node_for_the_first_elected_job_in_the_order() -> None:
    scene = cluster(NODES, QUEUES, busy("a", "b", "c"), large("one", "red", 2.0), large("two", "green", 1.0))
    wants = want("one", 0, "a b", created=2.0), want("two", 2, "b c", created=1.0)
    owner = taken(scene, 1, wants=wants)
    assert {"b": "ns/two", "c": "ns/two"} == locks(owner)
    assert owner.plan.elect == Elect("ns/two", 90.0)
    higher = replace(wants[0], priority=5)
    assert {"a": "ns/one", "b": "ns/one"} == locks(taken(scene, 1, wants=(higher, wants[1])))
    gone = want("deleted", 0, "b", created=0.0)
    assert {"b": "ns/two", "c": "ns/two"} == locks(taken(scene, 1, wants=(gone, *wants)))
    over = replace(wants[1], deadline=NOW)
    assert {"a": "ns/one", "b": "ns/one"} == locks(taken(scene, 1, wants=(wants[0], over))), "nobody has renewed it"


def test_an_election_ends_when_another_shard_has_elected_a_job_that_comes_before() -> None:
    election = Elect("ns/one", 80.0), Lock("a", "ns/one", 80.0), Lock("b", "ns/one", 81.0)
    scene = cluster(NODES, QUEUES, busy("a", "b", "c"), large("one", "red", 2.0), large("two", "green", 1.0), election)
    yields = taken(scene, 0, wants=(want("one", 0, "a b", created=2.0), want("two", 2, "c", created=1.0)))
    assert ({"c": "ns/two"}, []) == (locks(yields), elected_of(yields))
    stays = taken(scene, 0, wants=(want("one", 0, "a b", created=2.0), want("two", 2, "c", created=3.0)))
    assert stays.plan.elect is not None
    assert ("ns/one", 80.0) == (stays.plan.elect.job, stays.plan.elect.since)
    assert {"a", "b", "c"} == locks(stays).keys()


def test_a_shard_elects_only_a_job_that_comes_before_the_elected_one() -> None:
    scene = cluster(NODES, QUEUES, busy("a", "b", "c"), large("one", "red", 2.0), large("two", "green", 1.0))
    after = taken(scene, 0, wants=(want("two", 2, "c", created=1.0),))
    assert ("ns/two", []) == (after.plan.elect and after.plan.elect.job, elected_of(after))
    before = taken(scene, 2, wants=(want("one", 0, "a b", created=2.0),))
    assert before.plan.elect == Elect("ns/two", NOW, "", before.plan.elect.demand if before.plan.elect else ())
    assert set(locks(before).values()) == {"ns/two"}, "the locks of the other are not its own"
    assert ["ns/two"] == [w.job for w in elected_of(before)]


def test_an_owner_lends_locked_nodes_as_they_empty() -> None:
    tied = shape(cpu=1, node_terms=(NodeTerm(fields=(Requirement("metadata.name", "In", ("b",)),)),))
    daemon = tasks("ns/daemon", 1, tied, resident=True, status=Status.BOUND, node="b")
    asked = want("big", 0, "a b")
    big = large("big", "red")
    assert () == taken(cluster(NODES, QUEUES, busy("a", "b"), big), 1, wants=(asked,)).lends
    leaving = gang("leaving", 1, gpu=1, on=["b"], queue="blue", task={"status": Status.RELEASING})
    assert () == taken(cluster(NODES, QUEUES, busy("a"), leaving, big), 1, wants=(asked,)).lends
    empty = cluster(NODES, QUEUES, busy("a"), big, daemon)
    assert (Lend("b", 0),) == taken(empty, 1, wants=(asked,)).lends, "pods of DaemonSets stay"
    assert () == taken(empty, 2, wants=(asked,)).lends, "not its node"


def test_the_shard_of_the_elected_job_keeps_borrowed_nodes_that_their_owner_could_use() -> None:
    waits = gang("waits", 1, gpu=1, queue="blue", created=5.0)
    election = Elect("ns/big", 90.0), Lock("a", "ns/big", 90.0), Lock("b", "ns/big", 91.0)
    around = (NODES, QUEUES, busy("a", "c"), waits)
    owners, asked = OWNERS.lent("b", 0), want("big", 0, "a b")
    kept = taken(cluster(*around, large("big", "red"), election), 0, owners, wants=(asked,))
    assert () == kept.lends
    assert {"a", "b", "c"} == locks(kept).keys()
    assert (Lend("b", 1),) == taken(cluster(*around), 0, owners).lends, "without the election it goes back"
    passes = replace(asked, job="ns/waits", shard=1, nodes=("b",), elected=None, created=5.0)
    lent = taken(cluster(*around, large("big", "red"), election), 0, owners, wants=(asked, passes))
    assert (Lend("b", 1),) == lent.lends, "to a job that its shard places there: it ends in time"


def test_jobs_of_other_shards_use_locked_nodes_only_if_they_end_in_time() -> None:
    small = gang("small", 1, gpu=1, queue="blue", created=5.0)
    ends = gang("busy", 3, minimum=1, gpu=4, on=["a", "c"], queue="red", promise=1000.0, task={"started": NOW})
    scene = cluster(NODES, QUEUES, ends, large("big", "red"), small)
    asked = want("big", 0, "b")
    assert () == taken(scene, 1, wants=(asked,)).plan.bind
    assert ["ns/small-0"] == [bind.task for bind in taken(scene, 1).plan.bind], "without the want"
    quick = gang("small", 1, gpu=1, queue="blue", created=5.0, promise=100.0)
    passes = taken(cluster(NODES, QUEUES, ends, large("big", "red"), quick), 1, wants=(asked,))
    assert (["ns/small-0"], ()) == ([bind.task for bind in passes.plan.bind], passes.lends)


@pytest.mark.parametrize(("priority", "passes"), [(11, True), (10, False)])
def test_locks_for_a_job_of_another_shard_hold_against_equal_and_lower_priority_only(
    priority: int, passes: bool
) -> None:
    """The owner of a locked node places a job of higher priority on it, and does not lend the node meanwhile."""
    small = gang("small", 1, gpu=1, queue="blue", created=5.0, priority=priority)
    scene = cluster(NODES, QUEUES, busy("a", "c", gpu=4), large("big", "red", priority=10), small)
    owner = taken(scene, 1, wants=(want("big", 0, "a b", priority=10),))
    assert [("ns/small-0", "b")] * passes == [(b.task, b.node) for b in owner.plan.bind]
    assert {"a": "ns/big", "b": "ns/big"} == locks(owner)
    assert (() if passes else (Lend("b", 0),)) == owner.lends


def test_a_job_of_higher_priority_gets_a_locked_node_that_was_lent_by_a_want() -> None:
    lent = replace(OWNERS, nodes={"b": 0})
    small = gang("small", 1, gpu=1, queue="blue", created=5.0, priority=11)
    scene = cluster(NODES, QUEUES, busy("a", "c", gpu=4), large("big", "red", priority=10), small)
    elected = want("big", 0, "a b", priority=10)
    asks = taken(scene, 1, lent, wants=(elected,))
    assert [("ns/small", ("b",))] == [(w.job, w.nodes) for w in asks.wants]
    gives = taken(scene, 0, lent, wants=(*asks.wants, elected))
    assert (Lend("b", 1),) == gives.lends
    below = replace(scene, jobs=tuple(replace(j, priority=10) if j.key == "ns/small" else j for j in scene.jobs))
    assert () == taken(below, 1, lent, wants=(elected,)).wants


def test_the_want_of_an_elected_job_is_renewed_and_its_end_is_no_failure() -> None:
    election = Elect("ns/big", 90.0), Lock("a", "ns/big", 90.0)
    scene = cluster(NODES, QUEUES, busy("a", "b", "c"), large("big", "red"), election)
    asked = want("big", 0, "a")
    for later, deadline in ((1.0, NOW + ELECTED), (ELECTED / 2, NOW + ELECTED * 1.5), (1000.0, NOW + 1000.0 + ELECTED)):
        result = taken(scene, 0, now=NOW + later, wants=(asked,))
        assert [deadline] == [w.deadline for w in elected_of(result)]
        assert () == result.pauses


def test_a_job_in_a_pause_stops_no_other_election() -> None:
    """It may not use nodes of other shards now, so locks there could not help it."""
    scene = cluster(NODES, QUEUES, busy("a", "b", "c"), large("one", "red", 1.0), large("two", "green", 2.0))
    pause = Pause("ns/one", "", NOW + FIRST_PAUSE, FIRST_PAUSE)
    paused = taken(scene, 0, pauses=(pause,))
    assert (None, []) == (paused.plan.elect, elected_of(paused))
    other = taken(scene, 2)
    assert ["ns/two"] == [w.job for w in elected_of(other)]
    again = taken(scene, 0, now=NOW + FIRST_PAUSE, pauses=(pause,), wants=other.wants)
    assert ["ns/one"] == [w.job for w in elected_of(again)], "after the pause it comes first again"


def test_a_placed_job_has_an_ordinary_want_and_no_election() -> None:
    election = Elect("ns/big", 90.0), Lock("a", "ns/big", 90.0)
    scene = cluster(NODES, QUEUES, large("big", "red"), election)
    result = taken(scene, 0, wants=(want("big", 0, "a"),))
    assert [(("a", "b", "c"), None, NOW + DEADLINE)] == [(w.nodes, w.elected, w.deadline) for w in result.wants]
    assert (None, ()) == (result.plan.elect, result.plan.locks)


def test_an_elected_job_keeps_its_place_until_it_is_bound_on_own_nodes_too() -> None:
    """Otherwise another shard could lock its nodes when a bind fails."""
    owners = replace(OWNERS, nodes={"b": 0, "c": 0})
    election = Elect("ns/big", 90.0), Lock("a", "ns/big", 90.0)
    scene = cluster(NODES, QUEUES, large("big", "red"), election)
    elected = want("big", 0, "a b c")
    result = taken(scene, 0, owners, wants=(elected,))
    assert 3 == len(result.plan.bind)
    (ordinary,) = result.wants
    assert (("a", "b", "c"), None, NOW + DEADLINE) == (ordinary.nodes, ordinary.elected, ordinary.deadline)
    bound = cluster(NODES, QUEUES, large("big", "red", on=["a", "b", "c"]))
    assert () == taken(bound, 0, owners, wants=(ordinary,)).wants
    in_part = cluster(NODES, QUEUES, large("big", "red", on=["a", "b"]))
    assert [("c",)] == [w.nodes for w in taken(in_part, 0, owners, wants=(ordinary,)).wants]


def test_the_user_of_its_node_elects_a_pod_that_is_tied_to_it() -> None:
    tied = shape(gpu=4, node_terms=(NodeTerm(fields=(Requirement("metadata.name", "In", ("b",)),)),))
    daemon = tasks("ns/daemon", 1, tied, resident=True)
    scene = cluster(NODES, QUEUES, busy("b"), daemon)
    assert [(1, ("b",))] == [(w.shard, w.nodes) for w in elected_of(taken(scene, 1))]
    assert [] == elected_of(taken(scene, 0))


@pytest.mark.parametrize("order", sorted(itertools.permutations((0, 1, 2))))
def test_large_jobs_of_several_shards_start_in_the_order_of_the_cluster(order: tuple[int, ...]) -> None:
    """Small jobs end one by one. Whoever decides first, there is one election, and it is that of the first job."""
    small = [gang(f"small-{name}", 1, gpu=4, on=[name], queue="red", task=STAYS) for name in "abc"]
    every = [large("one", "green", 1.0), large("two", "red", 2.0), large("three", "blue", 3.0)]
    made = Shards(cluster(NODES, QUEUES, small, every), CONFIG, OWNERS, NOW, check_step)
    started = list[str]()
    for ending in ("small-c", "small-a", "small-b", "one", "two", "three"):
        for shard in order * 6:
            made.step(shard)
        waiting = [name for name in ("one", "two", "three") if name not in started]
        asking = [w.job for of in made.wants.values() for w in of]
        assert [f"ns/{name}" for name in waiting[:1]] == asking
        made.virtual.remove(f"ns/{ending}")
        for shard in order * 8:
            made.step(shard)
        on = {key for key, (_, pods) in made.virtual.jobs.items() if pods and pods[0].status is Status.BOUND}
        started += sorted(name for name in ("one", "two", "three") if f"ns/{name}" in on and name not in started)
    assert ["one", "two", "three"] == started


def test_a_node_that_a_job_is_about_to_get_is_not_locked() -> None:
    """One Maar would have started that job before it locked anything."""
    small = gang("small", 1, gpu=1, queue="blue", created=5.0)
    scene = cluster(NODES, QUEUES, busy("a", "b", gpu=2), small, large("big", "red"))
    fits = replace(want("small", 1, "c", created=5.0), elected=None)
    assert ["c"] == list(locks(taken(scene, 0)))
    assert ["a"] == list(locks(taken(scene, 0, wants=(fits,))))
