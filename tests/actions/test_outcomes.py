"""Outcomes that people expect: which pods lose their room, and which job goes first. Each scene says why."""

from __future__ import annotations

from typing import Any

import pytest

from maar.config.config import Config
from maar.config.file import default_config
from maar.decide import decide
from maar.model.jobs import Closeness
from maar.model.nodes import Node
from maar.model.outcome import carry_out
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.snapshot import Snapshot
from maar.model.topology import HyperNode, Member
from maar.registry import catalog
from maar.testing.builders import GPU, Gang, cluster, gang, node
from maar.testing.scenario import configured, scene

CAPACITY = """
actions: allocate, reclaim, preempt, backfill
tiers:
- plugins:
  - {name: priority}
  - name: gang
    enableJobStarving: false
    arguments: {gang.eviction: whole}
  - {name: conformance}
- plugins:
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: capacity, enableHierarchy: false}
  - name: nodeorder
    arguments: {leastrequested.weight: 0}
  - name: binpack
    arguments: {binpack.weight: 10, binpack.resources: nvidia.com/gpu, binpack.resources.nvidia.com/gpu: 10}
  - {name: topology}
"""
CONFIG, DEFAULT = configured(CAPACITY), default_config(catalog())
HOUR = 3600.0


def queue(name: str, gpus: int, **fields: Any) -> Queue:
    return Queue(name, deserved={GPU: gpus}, **fields)


def job(
    name: str,
    gpu: int = 1,
    count: int = 1,
    *,
    runs: bool = True,
    age: float = 60.0,
    preemptable: bool = True,
    **fields: Any,
) -> Gang:
    """A job of equal pods that request only GPUs, on node `n`, since `age` seconds before the scene begins."""
    places = ["n"] * count if runs else []
    task = {"preemptable": preemptable, **({"started": HOUR * 24 - age} if runs else {})}
    return gang(name, count, cpu=0, memory=0, gpu=gpu, on=places, task=task, created=HOUR * 24 - age, **fields)


def evicted(plans: list[Plan]) -> set[str]:
    return {e.task for plan in plans for e in plan.evict}


def started(plans: list[Plan]) -> set[str]:
    return {b.task for plan in plans for b in plan.bind}


def test_small_pods_are_reclaimed_where_a_large_one_would_leave_the_queue_below_its_share() -> None:
    """Without `big`, `a` would have 2 of its 3 GPUs, one would idle, and `big` could not come back."""
    parts = (
        node("n", gpu=5),
        queue("a", 3),
        queue("b", 2),
        [job("big", 3, queue="a"), job("s1", queue="a"), job("s2", queue="a")],
        job("want", 2, runs=False, queue="b"),
    )
    plans = scene(cluster(*parts), CONFIG, now=HOUR * 24)
    assert (evicted(plans), started(plans)) == ({"ns/s1-0", "ns/s2-0"}, {"ns/want-0"})


def test_the_same_by_weights_in_the_default_configuration() -> None:
    parts = (
        node("n", gpu=5),
        Queue("a", weight=3),
        Queue("b", weight=2),
        [job("big", 3, queue="a"), job("s1", queue="a"), job("s2", queue="a")],
        job("want", 2, runs=False, queue="b"),
    )
    plans = scene(cluster(*parts), DEFAULT, now=HOUR * 24)
    assert (evicted(plans), started(plans)) == ({"ns/s1-0", "ns/s2-0"}, {"ns/want-0"})


def test_an_old_small_pod_is_reclaimed_rather_than_a_young_one_that_the_share_of_its_queue_needs() -> None:
    parts = (
        node("n", gpu=4),
        queue("a", 3),
        queue("b", 1),
        [job("big", 3, queue="a"), job("small", queue="a", age=10 * HOUR)],
        job("want", runs=False, queue="b"),
    )
    plans = scene(cluster(*parts), CONFIG, now=HOUR * 24)
    assert (evicted(plans), started(plans)) == ({"ns/small-0"}, {"ns/want-0"})


def test_the_least_shortfall_is_found_where_the_cheapest_first_victim_is_wrong() -> None:
    """One job of 3 helps most for its cost, and a second of 3 completes it; two jobs of 2 free exactly 4 GPUs."""
    parts = (
        node("n", gpu=10),
        queue("a", 6),
        queue("b", 4),
        [job(f"{name}{size}", size, queue="a") for name in "xy" for size in (2, 3)],
        job("want", 4, runs=False, queue="b"),
    )
    plans = scene(cluster(*parts), CONFIG, now=HOUR * 24)
    assert (evicted(plans), started(plans)) == ({"ns/x2-0", "ns/y2-0"}, {"ns/want-0"})


def elastic_and_young(want: int, config: Config = CONFIG) -> list[Plan]:
    """A job of 10 hours with one pod above its minimum and one of a minute, on 3 GPUs."""
    parts = (
        node("n", gpu=3),
        queue("a", 3),
        job("elastic", count=2, minimum=1, age=10 * HOUR, queue="a", priority=50),
        job("young", queue="a", priority=50),
        job("want", want, runs=False, queue="a", priority=90),
    )
    return scene(cluster(*parts), config, now=HOUR * 24)


@pytest.mark.parametrize("config", [CONFIG, DEFAULT], ids=["capacity", "default"])
def test_gangs_are_compared_by_what_the_surplus_leaves(config: Config) -> None:
    """One job is lost either way: not the old one, of which only the minimum would count."""
    plans = elastic_and_young(2, config)
    assert (evicted(plans), started(plans)) == ({"ns/elastic-1", "ns/young-0"}, {"ns/want-0"})


def test_all_go_where_all_are_needed() -> None:
    assert evicted(elastic_and_young(3)) == {"ns/elastic-0", "ns/elastic-1", "ns/young-0"}


@pytest.mark.parametrize("tenants", ["", "tenants: untrusted"])
def test_a_minimum_within_the_share_of_its_queue_does_not_go_with_its_surplus(tenants: str) -> None:
    """Only the surplus pod is above the share of `a`, and one GPU is not enough for `want`."""
    parts = (
        node("n", gpu=3),
        queue("a", 2),
        queue("b", 2),
        job("elastic", count=3, minimum=2, queue="a"),
        job("want", 2, runs=False, queue="b"),
    )
    assert evicted(scene(cluster(*parts), configured(CAPACITY + tenants), now=HOUR * 24)) == set()


@pytest.mark.parametrize("tenants", ["", "tenants: untrusted"])
@pytest.mark.parametrize(("pods", "gpus"), [(2, 1), (1, 2)], ids=["gang", "pod"])
def test_a_gang_with_one_of_two_gpus_above_the_share_goes_like_a_pod(pods: int, gpus: int, tenants: str) -> None:
    parts = (
        node("n", gpu=2),
        queue("a", 1),
        queue("b", 1),
        job("both", gpus, pods, queue="a"),
        job("want", runs=False, queue="b"),
    )
    plans = scene(cluster(*parts), configured(CAPACITY + tenants), now=HOUR * 24)
    assert (len(evicted(plans)), started(plans)) == (pods, {"ns/want-0"})


def test_a_job_within_the_share_of_its_queue_goes_before_one_that_exceeds_it() -> None:
    """`pa` would take `a` to 3 of 2, `pb` takes `b` to 2 of 2. Otherwise `ra` would have to go for `pb`."""
    parts = (
        node("n", gpu=4),
        queue("a", 2),
        queue("b", 2),
        [job("ra", queue="a"), job("rb", queue="b")],
        job("pa", 2, runs=False, age=40, queue="a", preemptable=False),
        job("pb", runs=False, age=30, queue="b"),
    )
    plans = scene(cluster(*parts), CONFIG, now=HOUR * 24)
    assert (evicted(plans), started(plans)) == (set(), {"ns/pb-0"})


def test_the_next_job_of_a_queue_may_stay_within_its_share_where_the_first_does_not() -> None:
    """`a` uses more of its share than `b`, and `pa` would exceed it, but has no room: `tiny` is the next job of `a`."""
    parts = (
        node("n", gpu=6),
        queue("a", 4),
        queue("b", 2),
        [job("ra", 3, queue="a"), job("rb", queue="b")],
        [job("pa", 3, runs=False, age=40, queue="a"), job("tiny", runs=False, age=30, queue="a")],
        job("pb", 2, runs=False, age=50, queue="b", preemptable=False),
    )
    plans = scene(cluster(*parts), CONFIG, now=HOUR * 24)
    assert (evicted(plans), started(plans)) == (set(), {"ns/tiny-0"})


def spines(*sizes: tuple[int, ...]) -> list[Node | HyperNode]:
    """Spines (tier 2) of racks (tier 1) with the given numbers of nodes, each with one GPU."""
    made: list[Node | HyperNode] = []
    for s, racks in enumerate(sizes):
        for r, size in enumerate(racks):
            names = [f"n{s}{r}{i}" for i in range(size)]
            made += [node(name, gpu=1) for name in names]
            made.append(HyperNode(f"rack{s}{r}", 1, tuple(Member(name=name) for name in names)))
        made.append(HyperNode(f"spine{s}", 2, tuple(Member("HyperNode", f"rack{s}{r}") for r in range(len(racks)))))
    return made


def test_domains_are_chosen_from_the_top_level_down() -> None:
    """`one` fits every rack, the first three best. `gang` needs the whole spine that they are in."""
    parts = (
        spines((1, 1, 1), (2,)),
        queue("q", 5),
        job("one", runs=False, queue="q", closeness=Closeness(hard=False), age=500),
        job("gang", 1, 3, runs=False, queue="q", closeness=Closeness(tier=2)),
    )
    plans = scene(cluster(*parts), CONFIG, now=HOUR * 24)
    assert started(plans) == {"ns/one-0", "ns/gang-0", "ns/gang-1", "ns/gang-2"}


PATIENT = configured(f"""{CAPACITY}
configurations:
- {{name: preempt, arguments: {{evictAfter: 5m}}}}
- {{name: reclaim, arguments: {{evictAfter: 300s}}}}
""")


@pytest.mark.parametrize(("action", "theirs", "priority"), [("preempt", "a", 5), ("reclaim", "b", 0)])
def test_a_job_evicts_others_only_after_it_waited_for_the_configured_time(
    action: str, theirs: str, priority: int
) -> None:
    """The scene begins a minute after the job began to wait. Four minutes later it may evict."""
    parts = (
        node("n", gpu=2),
        queue("a", 2),
        queue("b", 0),
        job("other", 2, queue=theirs),
        job("want", 2, runs=False, queue="a", priority=priority),
    )
    made, now = cluster(*parts), HOUR * 24
    early = decide(Snapshot(made), PATIENT, now)
    assert ((), now + 240.0) == (early.evict, early.wake_at)
    words = f"no pod is evicted for it before 1970-01-02 00:04:00 UTC (`evictAfter` of `{action}`)"
    assert words in [r.message for w in early.waiting for r in w.reasons if r.code == "NotYetEvicting"]
    assert ["ns/other-0"] == [e.task for e in decide(Snapshot(made), PATIENT, now + 240.0).evict]


def test_room_that_is_free_needs_no_patience() -> None:
    plans = scene(cluster(node("n", gpu=2), queue("a", 2), job("want", 2, runs=False, queue="a")), PATIENT)
    assert {"ns/want-0"} == started(plans)


def test_virtual_time_wakes_when_a_job_may_evict() -> None:
    """What forecasts do: after the time the job starts, and nothing else has to happen."""
    parts = (
        node("n", gpu=2),
        queue("a", 2),
        job("other", 2, queue="a"),
        job("want", 2, runs=False, queue="a", priority=5),
    )
    made, now = cluster(*parts), HOUR * 24
    for _ in range(4):
        plan = decide(Snapshot(made), PATIENT, now)
        made = carry_out(made, plan, now)
        if plan.bind:
            break
        now = now + 1.0 if plan.evict else max(plan.wake_at or 0.0, now)
    assert ({"ns/want-0"}, HOUR * 24 + 241.0) == ({b.task for b in plan.bind}, now)


def protected(text: str) -> str:
    return text.replace("enableHierarchy: false", "enableHierarchy: true, arguments: {protectOnlyDeserved: true}")


@pytest.mark.parametrize("option", [True, False])
def test_jobs_that_may_not_be_evicted_start_only_within_what_is_deserved_on_every_level(option: bool) -> None:
    """`team` may have 3 of them by its own share, but `org` deserves 2. Jobs that may be evicted borrow as before."""
    parts = (
        node("n", gpu=8),
        [queue("org", 2), queue("rest", 6), queue("team", 3, parent="org")],
        [job(f"kept{i}", runs=False, queue="team", preemptable=False, age=100 - i) for i in range(3)],
        [job(f"free{i}", runs=False, queue="team", age=50 - i) for i in range(2)],
    )
    config = configured(protected(CAPACITY) if option else CAPACITY.replace("Hierarchy: false", "Hierarchy: true"))
    plans = scene(cluster(*parts), config, now=HOUR * 24)
    kept = {"ns/kept0-0", "ns/kept1-0"} if option else {"ns/kept0-0", "ns/kept1-0", "ns/kept2-0"}
    assert kept | {"ns/free0-0", "ns/free1-0"} == started(plans)
    if option:
        (reason,) = (r for w in plans[-1].waiting for r in w.reasons if r.code == "ProtectedOverDeserved")
        may = "queue `org` may have 2 nvidia.com/gpu (deserved, for jobs that may not be evicted), has 2"
        assert f"{may}, asks for 1 more" == reason.message


def test_jobs_that_may_be_evicted_do_not_use_up_what_protects_others() -> None:
    """`free` borrows; the protected job is within what its queue deserves, and starts beside it."""
    parts = (
        node("n", gpu=4),
        queue("a", 2),
        job("free", 2, queue="a"),
        job("kept", 2, runs=False, queue="a", preemptable=False),
    )
    assert {"ns/kept-0"} == started(scene(cluster(*parts), configured(protected(CAPACITY)), now=HOUR * 24))


def test_a_queue_that_deserves_nothing_protects_nothing() -> None:
    parts = (node("n", gpu=4), Queue("a"), job("kept", runs=False, queue="a", preemptable=False))
    assert set() == started(scene(cluster(*parts), configured(protected(CAPACITY)), now=HOUR * 24))
