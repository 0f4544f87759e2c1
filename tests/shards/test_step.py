"""One step of a shard: what it does with its own nodes, and what it wants, lends, asks for and gives back."""

from __future__ import annotations

import itertools
from typing import Any

from msgspec.structs import replace
from tests.support.shards import left_over, settled, workload
from tests.support.simulated_shards import Shards

from maar.config.config import Config, Registration
from maar.config.file import default_config, read_config
from maar.decide import decide
from maar.model.facts import About
from maar.model.jobs import Closeness
from maar.model.plan import Bind
from maar.model.queues import Queue
from maar.model.selectors import NodeTerm, Requirement
from maar.model.snapshot import Budget, Cluster, Snapshot
from maar.model.tasks import Status
from maar.registry import catalog
from maar.session.journal import Journal
from maar.session.memory import Memory, Moment, Remember, later
from maar.session.register import Register
from maar.session.session import Session
from maar.shards.map import ShardMap
from maar.shards.shard import Lend, Standing, Step, step
from maar.shards.slots import slot_of
from maar.shards.wants import DEADLINE, FIRST_PAUSE, Pause, Want
from maar.testing.builders import cluster, elastic, gang, node, shape, tasks

CONFIG = default_config(catalog())
NOW = 100.0
THEIRS = {slot_of(name) for name in ("b1", "b2", "blue")}
OWNERS = ShardMap(2, tuple(int(slot in THEIRS) for slot in range(256)))
"""Shard 0 has queue `red` and nodes `a1`, `a2`; shard 1 has `blue` and `b1`, `b2`."""
BORROWED = OWNERS.lent("b1", 0)
QUEUES = (Queue("red"), Queue("blue"))
NODES = tuple(node(name, gpu=4) for name in ("a1", "a2", "b1", "b2"))


def taken(
    of: Cluster, shard: int, owners: ShardMap = OWNERS, now: float = NOW, config: Config = CONFIG, **known: Any
) -> Step:
    uses = frozenset(n.name for n in of.nodes if owners.owner_of(n.name) == shard)
    queues = frozenset(name for name in ("red", "blue", "default") if owners.shard_of(name) == shard)
    return step(Snapshot(of), config, now, Standing(frozenset({shard}), owners, uses, queues, **known))


def want(job: str, nodes: str, shard: int = 1, **fields: Any) -> Want:
    made = Want(shard, f"ns/{job}", "", 0, 0.0, tuple(nodes.split()), NOW + DEADLINE)
    return replace(made, **fields)


def binds(of: Step) -> set[Bind]:
    return set(of.plan.bind)


def nodes_of(of: Step) -> dict[str, tuple[str, ...]]:
    return {w.job.removeprefix("ns/"): w.nodes for w in of.wants}


def test_a_job_that_fits_on_own_nodes_is_placed_there() -> None:
    scene = cluster(*NODES, *QUEUES, gang("g", 2, gpu=4, queue="red"), gang("busy", 1, gpu=1, on=["b1"], queue="blue"))
    plan = taken(scene, 0)
    assert {"a1", "a2"} == {b.node for b in plan.plan.bind}
    assert ((), ()) == (plan.wants, plan.lends)
    assert () == taken(scene, 1).plan.bind, "not its queue"


def test_with_one_shard_a_step_is_the_decision_of_one_maar() -> None:
    scene = cluster(*NODES, *QUEUES, gang("g", 5, gpu=2, queue="red"), gang("h", 2, gpu=4, queue="blue"))
    assert Step(decide(Snapshot(scene), CONFIG, NOW)) == taken(scene, 0, ShardMap.new(1))


def test_a_gang_that_does_not_fit_wants_all_its_nodes_and_starts_nothing() -> None:
    scene = cluster(*NODES, *QUEUES, gang("g", 3, gpu=4, queue="red"))
    first = taken(scene, 0)
    assert () == first.plan.bind
    ((_, nodes),) = nodes_of(first).items()
    assert {"a1", "a2"} < set(nodes)
    assert len(nodes) == 3
    assert NOW + DEADLINE == first.wants[0].deadline
    assert ["Borrowing"] == [r.code for w in first.plan.waiting for r in w.reasons]
    lender = taken(scene, 1, wants=first.wants)
    assert (Lend(nodes[2], 0),) == lender.lends


def test_a_gang_that_fits_nowhere_wants_nothing() -> None:
    assert () == taken(cluster(*NODES, *QUEUES, gang("g", 5, gpu=4, queue="red")), 0).wants


def test_pods_above_the_minimum_start_on_own_nodes_and_borrow_the_rest() -> None:
    result = taken(cluster(*NODES, *QUEUES, gang("g", 3, minimum=1, gpu=4, queue="red")), 0)
    assert {"a1", "a2"} == {b.node for b in result.plan.bind}
    ((_, nodes),) = nodes_of(result).items()
    assert len(nodes) == 1
    assert nodes[0].startswith("b")


def test_idle_nodes_of_another_shard_are_borrowed_before_anything_is_evicted() -> None:
    low = gang("low", 2, gpu=4, on=["a1", "a2"], queue="red", task={"controlled": True})
    result = taken(cluster(*NODES, *QUEUES, low, gang("high", 1, gpu=4, priority=5, queue="red")), 0)
    assert () == result.plan.evict
    assert ["high"] == list(nodes_of(result))


def test_an_owner_keeps_a_wanted_node_from_its_later_jobs_and_lends_it() -> None:
    full = gang("full", 1, gpu=4, on=["b2"], queue="blue")
    late = gang("late", 1, gpu=1, created=5.0, queue="blue")
    scene = cluster(*NODES, *QUEUES, full, late, gang("full-a", 2, gpu=4, on=["a1", "a2"], queue="red"))
    first = want("g", "b1", shard=0, created=1.0)
    result = taken(scene, 1, wants=(first,))
    assert () == result.plan.bind
    assert (Lend("b1", 0),) == result.lends
    assert {"b1"} == {b.node for b in taken(scene, 1).plan.bind}


def test_an_own_job_that_could_start_comes_before_a_later_want() -> None:
    early = gang("early", 1, gpu=1, created=0.5, queue="blue")
    scene = cluster(*NODES, *QUEUES, early, gang("full", 1, gpu=4, on=["b2"], queue="blue"))
    result = taken(scene, 1, wants=(want("g", "b1", shard=0, created=1.0),))
    assert {Bind("ns/early-0", "b1")} == binds(result)
    assert () == result.lends


def test_a_node_goes_to_the_first_of_two_wants() -> None:
    owners = replace(OWNERS, shards=3)
    wants = (want("g", "b1", shard=0, created=2.0), want("h", "b1", shard=2, created=9.0, priority=1))
    assert (Lend("b1", 2),) == taken(cluster(*NODES, *QUEUES), 1, owners, wants=wants).lends


def test_own_later_jobs_and_other_shards_leave_the_nodes_of_an_earlier_own_want_alone() -> None:
    """The later job is in a queue that has nothing yet, so without the want it would go first."""
    red = gang("small", 1, gpu=1, on=["a1"], queue="red")
    big = gang("big", 3, gpu=3, created=1.0, queue="red")
    late = gang("late", 1, gpu=3, created=2.0)
    scene = cluster(*NODES[:3], replace(NODES[3], unschedulable=True), *QUEUES, red, big, late)
    assert {"late"} == {b.task[3:-2] for b in taken(scene, 0).plan.bind}
    earlier = want("big", "a1 a2 b1", shard=0, created=1.0)
    result = taken(scene, 0, wants=(earlier, want("theirs", "a1", created=3.0)))
    assert ((), ()) == (result.plan.bind, result.lends)
    assert {"big": ("a1", "a2", "b1")} == nodes_of(result)


def test_a_want_stands_until_its_gang_is_bound_and_keeps_its_deadline() -> None:
    owners = OWNERS.lent("b1", 0)
    scene = cluster(*NODES, *QUEUES, gang("g", 3, gpu=4, queue="red"))
    earlier = want("g", "a1 a2 b1", shard=0, deadline=NOW + 3)
    result = taken(scene, 0, owners, wants=(earlier,))
    assert {"a1", "a2", "b1"} == {b.node for b in result.plan.bind}
    assert (earlier,) == result.wants
    bound = replace(scene, tasks=gang("g", 3, gpu=4, on=["a1", "a2", "b1"]).tasks)
    assert () == taken(bound, 0, owners, wants=(earlier,)).wants


def test_a_want_is_decided_again_when_a_node_is_gone() -> None:
    scene = cluster(*(n for n in NODES if n.name != "b1"), *QUEUES, gang("g", 3, gpu=4, queue="red"))
    result = taken(scene, 0, wants=(want("g", "a1 a2 b1", shard=0),))
    assert {"g": ("a1", "a2", "b2")} == nodes_of(result)


def test_a_missed_deadline_returns_the_nodes_and_the_pause_doubles() -> None:
    scene = cluster(*NODES, *QUEUES, gang("g", 4, gpu=4, queue="red"))
    missed = want("g", "a1 a2 b1 b2", shard=0, deadline=NOW)
    result = taken(scene, 0, BORROWED, wants=(missed,))
    assert () == result.wants
    assert (Pause("ns/g", "", NOW + FIRST_PAUSE, FIRST_PAUSE),) == result.pauses
    assert (Lend("b1", 1),) == result.lends
    during = taken(scene, 0, BORROWED, now=NOW + 1, pauses=result.pauses)
    assert ((), result.pauses) == (during.wants, during.pauses)
    over = taken(scene, 0, BORROWED, now=NOW + FIRST_PAUSE, pauses=result.pauses)
    assert ["g"] == list(nodes_of(over))
    late = replace(over.wants[0], deadline=NOW + FIRST_PAUSE)
    again = taken(scene, 0, BORROWED, now=NOW + FIRST_PAUSE, wants=(late,), pauses=over.pauses)
    assert [2 * FIRST_PAUSE] == [pause.length for pause in again.pauses]


def test_a_borrowed_node_goes_back_when_its_work_has_ended_and_its_owner_has_use_for_it() -> None:
    waits = gang("waits", 3, gpu=3, queue="blue")
    assert (Lend("b1", 1),) == taken(cluster(*NODES, *QUEUES, waits), 0, BORROWED).lends
    elsewhere = want("waits", "a1 a2 b2")
    assert (Lend("a1", 1), Lend("a2", 1)) == taken(
        cluster(*NODES, *QUEUES, waits), 0, BORROWED, wants=(elsewhere,)
    ).lends, "its want names what it needs"
    at_work = gang("work", 1, gpu=1, on=["b1"], queue="red")
    assert () == taken(cluster(*NODES, *QUEUES, waits, at_work), 0, BORROWED).lends
    too_large = gang("large", 1, gpu=8, queue="blue")
    assert () == taken(cluster(*NODES, *QUEUES, too_large), 0, BORROWED).lends
    assert () == taken(cluster(*NODES, *QUEUES), 0, BORROWED).lends


def reclaiming(**fields: Any) -> Cluster:
    """Queue `red` has less than its share; `blue` has all nodes."""
    victim = gang("victim", 4, minimum=1, gpu=4, on=["b1", "b2", "a1", "a2"], queue="blue", task={"controlled": True})
    return cluster(*NODES, *QUEUES, victim, gang("g", 1, gpu=4, queue="red"), **fields)


def test_victims_of_another_shard_leave_after_the_asker_has_the_nodes() -> None:
    scene = reclaiming()
    asker = taken(scene, 0)
    ((_, nodes),) = nodes_of(asker).items()
    asked = asker.wants[0]
    assert (True, ()) == (asked.asks, asker.plan.evict), "own nodes suffice, but the victim is not its own"
    assert ("a2",) == nodes
    assert tuple(v.task for v in asked.victims) == tuple(e.task for e in taken(scene, 1, wants=(asked,)).plan.evict)
    elsewhere = replace(asked, nodes=("b1",))
    assert () == taken(scene, 1, wants=(elsewhere,)).plan.evict, "the asker does not own the node"
    assert () == taken(scene, 1, wants=(replace(asked, asks=False),)).plan.evict
    assert () == taken(scene, 1, now=NOW + DEADLINE, wants=(asked,)).plan.evict, "the want has ended"


def test_an_elastic_job_of_another_shard_shrinks_when_it_is_asked() -> None:
    victim = elastic("victim", 1, 4, gpu=4, on=["b1", "b2", "a1", "a2"], job={"queue": "blue"})
    scene = cluster(*NODES, *QUEUES, victim, gang("g", 1, gpu=4, queue="red"))
    asker = taken(scene, 0)
    assert [(True, ("ns/victim-worker-3",))] == [(w.asks, tuple(v.task for v in w.victims)) for w in asker.wants]
    assert ((), ()) == (asker.plan.resize, asker.plan.evict)
    served = taken(scene, 1, wants=asker.wants).plan
    assert ([("ns/victim", 3)], ()) == ([(r.job, r.after) for r in served.resize], served.evict)


def test_an_own_elastic_job_shrinks_only_when_the_nodes_are_there() -> None:
    blocked = gang("wall", 1, gpu=4, on=["a1"], queue="red", task={"preemptable": False})
    victim = elastic("victim", 1, 3, gpu=4, on=["a2", "b1", "b2"], job={"queue": "red"})
    high = gang("high", 2, gpu=4, priority=5, queue="red")
    scene = cluster(*NODES, *QUEUES, blocked, victim, high)
    before = taken(scene, 0)
    assert ((), (), ["high"]) == (before.plan.resize, before.plan.evict, list(nodes_of(before)))
    after = taken(scene, 0, OWNERS.lent("b1", 0).lent("b2", 0), wants=before.wants)
    assert [("ns/victim", 1)] == [(r.job, r.after) for r in after.plan.resize]


def test_nodes_come_first_where_victims_are_elsewhere() -> None:
    owners = replace(OWNERS, nodes=dict.fromkeys(("a1", "a2", "b1", "b2"), 1))
    asker = taken(reclaiming(), 0, owners)
    assert [(False, ())] == [(w.asks, w.victims) for w in asker.wants]
    lender = taken(reclaiming(), 1, owners, wants=asker.wants)
    assert ([Lend(n, 0) for n in asker.wants[0].nodes], ()) == (list(lender.lends), lender.plan.evict)


def test_the_shard_of_the_victim_keeps_its_budget_and_its_minimum() -> None:
    asked = taken(reclaiming(), 0).wants[0]
    plain = reclaiming()
    guarded = tuple(replace(t, budgets=("ns/b",)) if t.job == "ns/victim" else t for t in plain.tasks)
    tight = replace(plain, tasks=guarded, budgets=(Budget("ns/b", 0),))
    assert () == taken(tight, 1, wants=(asked,)).plan.evict
    whole = replace(plain, jobs=tuple(replace(j, min_member=4) if j.key == "ns/victim" else j for j in plain.jobs))
    assert () == taken(whole, 1, wants=(asked,)).plan.evict, "part of a gang"
    left = [t for t in plain.tasks if t.job != "ns/victim" or t.node in ("a2", "b1")]
    assert () == taken(replace(plain, tasks=tuple(left)), 1, wants=(asked,)).plan.evict, "all that its queue deserves"


def test_a_pod_tied_to_a_node_is_bound_by_the_user_of_that_node() -> None:
    here = (NodeTerm(fields=(Requirement("metadata.name", "In", ("b1",)),)),)
    (pod,) = tasks("ns/daemon", 1, shape(node_terms=here), resident=True)
    scene = cluster(*NODES, *QUEUES, pod)
    assert (0, 1) == tuple(len(taken(scene, shard).plan.bind) for shard in (0, 1))


def test_a_gang_within_one_rack_gets_an_own_rack_or_borrows_a_whole_one() -> None:
    racks = [replace(n, labels={"rack": "r1" if n.name.startswith("b") else "r2"}) for n in NODES]
    close = gang("g", 2, gpu=4, queue="red", closeness=Closeness("rack"))
    assert {"a1", "a2"} == {b.node for b in taken(cluster(*racks, *QUEUES, close), 0).plan.bind}
    busy = gang("busy", 1, gpu=1, on=["a1"], queue="red")
    assert {"g": ("b1", "b2")} == nodes_of(taken(cluster(*racks, *QUEUES, close, busy), 0))


def test_nodes_go_to_the_shard_of_their_rack_with_their_pods_unless_a_job_starts_there_now() -> None:
    works, starts = gang("works", 1, gpu=1, on=["a1"], queue="red"), gang("starts", 1, gpu=4, queue="red")
    scene, homes = cluster(*NODES, *QUEUES, works, starts), dict.fromkeys(("a1", "a2", "b1", "b2"), 1)
    result = taken(scene, 0, homes=homes)
    assert {Bind("ns/starts-0", "a2")} == binds(result)
    assert (Lend("a1", 1),) == result.lends
    assert () == taken(scene, 1, OWNERS.lent("a1", 1), homes=homes).lends, "it is at home"
    assert () == taken(scene, 0).lends, "without racks it stays"


def test_a_gang_of_40_starts_on_three_shards_with_20_free_slots_each() -> None:
    owners, names = ShardMap.new(3), (f"n{i}" for i in itertools.count())
    of_shard: dict[int, list[str]] = {0: [], 1: [], 2: []}
    while any(len(found) < 5 for found in of_shard.values()):
        found = of_shard[owners.owner_of(name := next(names))]
        found.extend([name] if len(found) < 5 else [])
    machines = [node(name, gpu=4) for found in of_shard.values() for name in found]
    shards = Shards(cluster(*machines, gang("g", 40, gpu=1)), CONFIG, owners)
    assert shards.settle(itertools.islice(itertools.cycle((0, 1, 2)), 30))
    assert [Status.BOUND] * 40 == [task.status for task in shards.virtual.cluster().tasks]
    assert 5 == shards.counts.lends, "no more nodes than it needs"


def test_a_job_waits_for_room_in_its_queue_that_a_job_with_a_want_will_free() -> None:
    """Evicting `low` makes room for `high` and `more` under the limit. `high` must borrow first, so `low` stays."""
    red = replace(QUEUES[0], capability={"pods": 2})
    low = gang("low", 2, gpu=4, on=["a1", "b1"], queue="red", priority=1, task={"controlled": True})
    there = {"node_terms": (NodeTerm(fields=(Requirement("metadata.name", "In", ("b2",)),)),)}
    high = gang("high", 1, gpu=4, queue="red", priority=9, constraints=there)
    more = gang("more", 1, cpu=0, memory=0, queue="red", priority=5)
    scene = cluster(*NODES, red, QUEUES[1], low, high, more)
    whole = decide(Snapshot(scene), CONFIG, NOW)
    assert (2, ["ns/more-0"]) == (len(whole.evict), [b.task for b in whole.bind]), "one Maar does all of it"
    part = taken(scene, 0)
    assert ((), (), {"high": ("b2",)}) == (part.plan.evict, part.plan.bind, nodes_of(part))
    reasons = {wait.job: wait.reasons[0].message for wait in part.plan.waiting}
    assert "queue `red` has no room before pods leave it for a job that borrows" in reasons["ns/more"]
    after = taken(scene, 0, OWNERS.lent("b2", 0), wants=part.wants).plan
    assert (2, ["ns/more-0"]) == (len(after.evict), [b.task for b in after.bind]), "it has the node"


def test_a_gang_that_leaves_for_two_jobs_is_not_left_in_part() -> None:
    """Its surplus leaves for a job that must wait for nodes of another shard, and the rest for a job that need not."""
    after = settled(workload(144, nodes=(6, 20)), CONFIG, 2, 144)
    assert not left_over(after).moves


def test_nothing_is_evicted_because_an_own_job_no_longer_wants_an_idle_node() -> None:
    """`first` fits on the borrowed node alone. Its want of before named both, and kept `b2` from `next`."""
    busy = gang("busy", 2, gpu=4, on=["a1", "a2"], queue="red", task={"controlled": True})
    first = gang("first", 2, gpu=2, priority=2, queue="red", created=1.0)
    later = gang("next", 1, gpu=2, priority=1, queue="red", created=2.0)
    scene = cluster(*NODES, *QUEUES, busy, first, later)
    before = want("first", "b1 b2", shard=0, priority=2, created=1.0), want("next", "b2", shard=0, priority=1)
    result = taken(scene, 0, BORROWED, wants=before)
    assert {"b1"} == {bind.node for bind in result.plan.bind}
    assert ((), {"first": ("b1",), "next": ("b2",)}) == (result.plan.evict, nodes_of(result))
    assert [()] * 2 == [w.victims for w in result.wants]


def test_the_user_of_its_node_asks_for_the_victims_of_a_pod_that_is_tied_to_it() -> None:
    """Also once room is promised to the pod: it is not the shard of its queue that decides then."""
    here = (NodeTerm(fields=(Requirement("metadata.name", "In", ("b1",)),)),)
    daemon = tasks("ns/daemon", 1, shape(gpu=4, node_terms=here), resident=True, priority=9)
    low = gang("low", 1, gpu=4, on=["b1"], queue="default", task={"controlled": True})
    owners = OWNERS.let_go("default", 0)
    scene = cluster(*NODES, *QUEUES, Queue("default"), low, daemon)
    user = taken(scene, 1, owners)
    assert [(1, "ns/daemon", ("b1",), True)] == [(w.shard, w.job, w.nodes, w.asks) for w in user.wants]
    assert {"ns/low-0"} == {e.task for e in taken(scene, 0, owners, wants=user.wants).plan.evict}
    promised = [replace(task, status=Status.NOMINATED, node="b1") for task in daemon]
    after = cluster(*NODES, *QUEUES, Queue("default"), promised)
    assert ((), ()) == (taken(after, 0, owners).wants, taken(after, 0, owners).plan.bind)
    assert ["b1"] == [bind.node for bind in taken(after, 1, owners).plan.bind]


def test_room_that_a_served_want_leaves_on_its_node_is_used_at_once() -> None:
    """Both wanted the node. It came, `first` needs half of it, and nothing is evicted for `next`."""
    busy = gang("busy", 2, gpu=4, on=["a1", "a2"], queue="red", task={"controlled": True})
    first = gang("first", 1, gpu=2, priority=2, queue="red", created=1.0)
    later = gang("next", 1, gpu=2, priority=1, queue="red", created=2.0)
    before = want("first", "b1", shard=0, priority=2, created=1.0), want("next", "b1", shard=0, priority=1, created=2.0)
    result = taken(cluster(*NODES, *QUEUES, busy, first, later), 0, BORROWED, wants=before)
    assert {Bind("ns/first-0", "b1"), Bind("ns/next-0", "b1")} == binds(result)
    assert () == result.plan.evict
    large = gang("first", 2, gpu=4, priority=2, queue="red", created=1.0)
    full = gang("full", 1, gpu=1, on=["b2"], queue="blue", task={"preemptable": False})
    kept = taken(cluster(*NODES, *QUEUES, busy, large, later, full), 0, BORROWED, wants=before)
    assert "b1" not in {bind.node for bind in kept.plan.bind if bind.task == "ns/next-0"}, "it still lacks a pod"


def test_an_elastic_job_grows_on_own_nodes_and_on_others_after_they_are_lent() -> None:
    small = taken(cluster(*NODES, *QUEUES, elastic("e", 1, 2, gpu=4, on=["a1"], job={"queue": "red"})), 0)
    assert ([2], {}) == ([change.after for change in small.plan.resize], nodes_of(small))
    scene = cluster(*NODES, *QUEUES, elastic("e", 1, 4, gpu=4, on=["a1"], job={"queue": "red"}))
    before = taken(scene, 0)
    assert ((), (), {"e": ("a2", "b1", "b2")}) == (before.plan.resize, before.plan.reserve, nodes_of(before))
    after = taken(scene, 0, OWNERS.lent("b1", 0).lent("b2", 0), wants=before.wants)
    assert [("ns/e", 4)] == [(change.job, change.after) for change in after.plan.resize]


def test_role_minimums_that_do_not_count_keep_nothing_back() -> None:
    """Their sum is above the minimum of the gang, so two pods on own nodes are enough."""
    made = gang("g", roles={"w": 3}, minimum=2, role_min={"w": 3}, gpu=4, queue="red")
    result = taken(cluster(*NODES, *QUEUES, made), 0)
    assert {"a1", "a2"} == {b.node for b in result.plan.bind}


def test_a_gang_that_lacks_a_role_may_use_any_node_while_it_is_paused() -> None:
    """Its workers run, its master fits on a node of the other shard only: it is not released."""
    on = ["a1", "a2"]
    made = gang(
        "g", roles={"w": 2, "m": 1}, minimum=2, role_min={"m": 1}, gpu=4, queue="red", on=on, task={"controlled": True}
    )
    paused = (Pause("ns/g", "", NOW + FIRST_PAUSE, FIRST_PAUSE),)
    result = taken(cluster(*NODES, *QUEUES, made), 0, pauses=paused)
    assert () == result.plan.evict
    assert ["g"] == list(nodes_of(result))


class Clerk:
    """Remembers of every object when it was last seen."""

    def __init__(self, arguments: object) -> None: ...

    def open(self, session: Session, on: Register) -> None:
        nodes, queues = session.snapshot.nodes.names, [queue.name for queue in session.snapshot.queues.queues]
        jobs = [job.key for job in session.snapshot.jobs.jobs]
        for about, keys in zip(About, ([""], queues, jobs, nodes), strict=True):
            for key in keys:
                on.remember(LAST[about]).set(Moment(session.now), key)


LAST = {about: Remember(f"last-{about}", about, Moment, later) for about in About}


def test_a_shard_remembers_of_its_own_and_leaves_what_others_remember() -> None:
    known = catalog()
    more = replace(known, plugins={**known.plugins, "clerk": Registration("clerk", Clerk)})
    config = read_config("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: clerk}]}]\n", "test", more).config
    scene = cluster(*NODES, *QUEUES, gang("mine", queue="red", uid="1"), gang("theirs", queue="blue", uid="2"))
    before = replace(scene, facts=decide(Snapshot(scene), config, 1.0).facts)
    first, second = (taken(before, shard, config=config).plan.facts for shard in (0, 1))
    own = {("cluster", ""), ("queue", "red"), ("job", "ns/mine"), ("node", "a1"), ("node", "a2")}
    theirs = {("cluster", ""), ("queue", "blue"), ("job", "ns/theirs"), ("node", "b1"), ("node", "b2")}
    assert own <= {(f.about, f.key) for f in first if f.value == {"at": NOW}}
    assert theirs - {("cluster", "")} <= {(f.about, f.key) for f in first if f.value == {"at": 1.0}}
    merged = Memory(Snapshot(replace(scene, facts=(*first, *second))), Journal(), NOW)
    found = {
        (what.about, key) for what in LAST.values() for key, at in merged.of("clerk", what).items() if at.at == NOW
    }
    assert own | theirs <= found, "what two shards wrote, together"
