"""Brakes: evictions and resizes are paused, capped, or off by queue, all or nothing for each job that needs them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from maar.config.file import default_config
from maar.controller.settings.brakes import Brakes, BrakeSettings, share_of
from maar.decide import decide
from maar.model.elastic import Elastic
from maar.model.jobs import Job
from maar.model.plan import Bind, Evict, Plan, Reserve, Resize, Resume, Suspend, Target
from maar.model.queues import Queue
from maar.model.reasons import in_one_line
from maar.model.shapes import Shape
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog
from maar.shards.map import ShardMap
from maar.shards.shard import Standing
from maar.shards.slots import SLOTS
from maar.testing.builders import GPU, cluster, elastic, gang, node

CONFIG = default_config(catalog())


def two_claims() -> tuple[Plan, Snapshot]:
    """Two gangs of high priority; each needs the eviction of a gang of two pods."""
    snapshot = Snapshot(
        cluster(
            [node(f"n{i}", gpu=8) for i in range(2)],
            [gang(f"low{i}", 2, gpu=4, on=[f"n{i}"] * 2, priority=1) for i in range(2)],
            [gang(f"high{i}", 1, gpu=8, priority=9) for i in range(2)],
        )
    )
    plan = decide(snapshot, CONFIG, 100.0)
    assert len(plan.evict) == 4
    return plan, snapshot


def test_without_brakes_everything_passes() -> None:
    plan, snapshot = two_claims()
    assert Brakes().apply(plan, snapshot, 100.0) is plan


def test_while_paused_nothing_is_evicted_and_nothing_nominated() -> None:
    plan, snapshot = two_claims()
    brakes = Brakes(BrakeSettings(paused=True))
    held = brakes.apply(plan, snapshot, 100.0)
    assert ((), ()) == (held.evict, held.nominate)
    assert 4 == brakes.held
    messages = {w.job: in_one_line(w.reasons) for w in held.waiting}
    assert dict.fromkeys(("ns/high0", "ns/high1"), "needs 2 evictions: evictions are paused") == messages


def test_a_rate_lets_whole_claims_through_and_says_when_the_next_may() -> None:
    plan, snapshot = two_claims()
    brakes = Brakes(BrakeSettings(per_minute=3))
    first = brakes.apply(plan, snapshot, 100.0)
    assert 2 == len(first.evict)
    assert 1 == len({e.beneficiary for e in first.evict})
    assert [first.evict[0].beneficiary] == [n.task.rsplit("-", 1)[0] for n in first.nominate]
    assert 160.0 == first.wake_at
    (braked,) = [r for w in first.waiting for r in w.reasons if r.code == "Braked"]
    assert "needs 2 evictions: at most 3 pods are evicted per minute" == braked.message
    assert 2 == len(brakes.apply(plan, snapshot, 161.0).evict)


def test_a_claim_larger_than_the_rate_passes_alone() -> None:
    plan, snapshot = two_claims()
    assert 2 == len(Brakes(BrakeSettings(per_minute=1)).apply(plan, snapshot, 100.0).evict)
    assert () == Brakes(BrakeSettings(per_minute=0)).apply(plan, snapshot, 100.0).evict


def test_a_queue_can_be_left_out() -> None:
    plan, snapshot = two_claims()
    assert () == Brakes(BrakeSettings(queues_off=("default",))).apply(plan, snapshot, 100.0).evict
    assert 4 == len(Brakes(BrakeSettings(queues_off=("other",))).apply(plan, snapshot, 100.0).evict)


def test_a_name_that_no_queue_has_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    plan, snapshot = two_claims()
    brakes = Brakes(BrakeSettings(queues_off=("default", "defaults")))
    for now in (100.0, 101.0):
        brakes.apply(plan, snapshot, now)
    assert [
        "brakes: queuesOff: unknown queue `defaults`; did you mean `default`? known: default, root"
    ] == caplog.messages


def test_settings_change_while_running() -> None:
    plan, snapshot = two_claims()
    brakes = Brakes(BrakeSettings(paused=True))
    assert () == brakes.apply(plan, snapshot, 100.0).evict
    brakes.settings = BrakeSettings()
    assert 4 == len(brakes.apply(plan, snapshot, 101.0).evict)


def elastic_jobs() -> tuple[Plan, Snapshot]:
    """One job shrinks and one stops, so that a third can grow and a fourth can start."""
    shape = Shape()
    jobs = tuple(
        Job(
            f"ns/{name}",
            queue="b" if name == "shrinks" else "a",
            elastic=Elastic(1, 4, shape, 2, suspended=name == "starts", reserved=holds),
        )
        for name, holds in (("shrinks", ()), ("stops", ()), ("grows", (("n0", 1),)), ("starts", ()))
    )
    plan = Plan(
        resize=(Resize("ns/shrinks", 2, 1), Resize("ns/grows", 2, 3)),
        suspend=(Suspend("ns/stops"),),
        resume=(Resume("ns/starts", 1),),
        reserve=(Reserve("ns/grows", "n0", 2), Reserve("ns/starts", "n1", 1), Reserve("ns/else", "n2", 1)),
        targets=(Target("ns/grows", 3, 3, "fifo"), Target("ns/starts", 1, 1, "fifo"), Target("ns/else", 1, 1, "fifo")),
        wake_at=900.0,
    )
    return plan, Snapshot(Cluster(jobs=jobs))


def changed(plan: Plan) -> set[str]:
    return {x.job for part in (plan.resize, plan.suspend, plan.resume) for x in part}


def test_sizes_pass_without_brakes_and_stay_when_they_are_paused() -> None:
    plan, snapshot = elastic_jobs()
    assert Brakes(BrakeSettings(paused=True)).apply(plan, snapshot, 100.0) is plan
    brakes = Brakes(BrakeSettings(resizes_paused=True))
    held = brakes.apply(plan, snapshot, 100.0)
    assert set() == changed(held)
    assert {("ns/else", "n2", 1), ("ns/grows", "n0", 1)} == {(h.job, h.node, h.count) for h in held.reserve}
    assert (4, 900.0) == (brakes.held_sizes, held.wake_at)
    assert held.targets == (
        Target("ns/grows", 2, 3, "fifo; blocked by the brakes"),
        Target("ns/starts", 0, 1, "fifo; blocked by the brakes"),
        Target("ns/else", 1, 1, "fifo"),
    )


def test_if_one_job_may_not_shrink_none_grows() -> None:
    plan, snapshot = elastic_jobs()
    held = Brakes(BrakeSettings(queues_off=("b",))).apply(plan, snapshot, 100.0)
    assert {"ns/stops"} == changed(held)
    assert Brakes(BrakeSettings(queues_off=("c",))).apply(plan, snapshot, 100.0) is plan


def test_sizes_are_capped_by_rate() -> None:
    plan, snapshot = elastic_jobs()
    brakes = Brakes(BrakeSettings(resizes_per_minute=4))
    assert brakes.apply(plan, snapshot, 100.0) is plan
    second = brakes.apply(plan, snapshot, 130.0)
    assert (set(), 160.0) == (changed(second), second.wake_at)
    assert brakes.apply(plan, snapshot, 160.0) is plan
    assert set() == changed(Brakes(BrakeSettings(resizes_per_minute=0)).apply(plan, snapshot, 100.0))
    assert Brakes(BrakeSettings(resizes_per_minute=1)).apply(plan, snapshot, 100.0) is plan, "a single change passes"


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 5, 10])
@pytest.mark.parametrize("shards", [2, 3, 4])
def test_shards_keep_a_limit_together_in_any_minute_and_none_is_left_out(limit: int, shards: int) -> None:
    """Each shard does at once whatever it may; no minute has more than the limit."""
    done: list[float] = []
    counts = [0] * shards
    recent: list[list[float]] = [[] for _ in range(shards)]
    for now in range(0, 120 * shards * 2, 5):
        for shard in range(shards):
            recent[shard] = [at for at in recent[shard] if at > now - 60.0]
            most, _ = share_of(limit, frozenset({shard}), shards, float(now))
            new = max(most - len(recent[shard]), 0)
            recent[shard] += [float(now)] * new
            done += [float(now)] * new
            counts[shard] += new
        assert sum(at > now - 60.0 for at in done) <= limit
    assert (min(counts) > 0) == (limit > 0)


def test_the_process_with_all_shards_has_the_whole_limit() -> None:
    assert (5, True) == share_of(5, frozenset({0, 1, 2}), 3, 0.0)


def test_a_shard_lets_its_part_of_the_limit_through() -> None:
    plan, snapshot = two_claims()
    owners, limit = ShardMap(2, (0,) * SLOTS), BrakeSettings(per_minute=4)
    everything = frozenset(snapshot.nodes.names)
    for shards, evicted in ((frozenset({0}), 2), (frozenset({0, 1}), 4)):
        standing = Standing(shards, owners, everything, frozenset({"default"}))
        assert evicted == len(Brakes(limit).apply(plan, snapshot, 100.0, standing).evict)


def test_binds_into_room_of_blocked_evictions_are_blocked_too() -> None:
    low = gang("low", 2, gpu=4, on=["n0", "n0"], queue="mine", priority=1)
    waits = gang("high", 1, gpu=4, queue="mine", priority=9), gang("other", 1, gpu=4, queue="free")
    queues = Queue("mine", capability={GPU: 8}), Queue("free")
    snapshot = Snapshot(cluster(node("n0", gpu=8), node("n1", gpu=8), *queues, low, *waits))
    evict = tuple(Evict(f"ns/low-{i}", "ns/other", "asked for by another shard") for i in range(2))
    plan = Plan(bind=(Bind("ns/high-0", "n1"), Bind("ns/other-0", "n1")), evict=evict)
    assert plan is Brakes().apply(plan, snapshot, 100.0)
    held = Brakes(BrakeSettings(paused=True)).apply(plan, snapshot, 100.0)
    assert ((), (Bind("ns/other-0", "n1"),)) == (held.evict, held.bind)
    messages = {w.job: in_one_line(w.reasons) for w in held.waiting}
    assert "queue `mine` has no room before evictions or resizes that the brakes block" == messages["ns/high"]


def test_a_gang_that_leaves_for_two_jobs_stays_whole_or_leaves_whole() -> None:
    low = gang("low", 4, minimum=2, gpu=2, on=["n0"] * 4, priority=1)
    waits = gang("one", 1, gpu=4, priority=9), gang("two", 1, gpu=4, priority=8), gang("third", 1, gpu=4, priority=7)
    other = gang("other", 1, gpu=4, on=["n1"], priority=1)
    snapshot = Snapshot(cluster(node("n0", gpu=8), node("n1", gpu=8), low, other, *waits))
    evict = [Evict(f"ns/low-{i}", f"ns/{'one' if i < 2 else 'two'}", "because") for i in range(4)]
    plan = Plan(evict=(Evict("ns/other-0", "ns/third", "because"), *evict))
    for limit, passes in ((3, ["ns/third"]), (5, ["ns/third", "ns/one", "ns/one", "ns/two", "ns/two"])):
        found = Brakes(BrakeSettings(per_minute=limit)).apply(plan, snapshot, 100.0)
        assert passes == [e.beneficiary for e in found.evict]


@pytest.mark.parametrize("settings", [BrakeSettings(paused=True), BrakeSettings(resizes_paused=True)])
def test_a_job_that_may_not_move_or_change_does_neither(settings: BrakeSettings) -> None:
    """The job would grow on another node: no growth without the move, and no move without the growth."""
    others = [elastic(name, 1, 1, on=["n1"]) for name in "bcd"]
    before = cluster(node("n1", gpu=4), node("n2", gpu=4), elastic("a", 1, 4, on=["n1"]), *others)
    free = replace(CONFIG.pools[0], rate_limit=0.0, minimum_time=0.0, restart=0.0, pack=True)
    snapshot = Snapshot(before)
    plan = decide(snapshot, replace(CONFIG, pools=(free,)), 100.0)
    assert (1, 1) == (len(plan.evict), len(plan.resize))
    held = Brakes(settings).apply(plan, snapshot, 100.0)
    assert ((), (), ()) == (held.evict, held.resize, held.reserve)
