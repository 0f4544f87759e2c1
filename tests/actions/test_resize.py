"""resize: elastic jobs grow and shrink. Scenes run until nothing moves, then for five more cycles."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from maar.config.config import Config
from maar.decide import decide
from maar.model.elastic import Past
from maar.model.lengths import Estimate
from maar.model.plan import Plan, Reserve, Resume, Suspend
from maar.model.queues import Queue
from maar.model.selectors import Requirement
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.session.resizing.elastic_columns import past_of
from maar.session.session import Session
from maar.testing.builders import GPU, cluster, elastic, gang, node, shape, tasks
from maar.testing.scenario import configured, cycles, scene

CONFIG = """
actions: "enqueue, allocate, resize, preempt, reclaim"
tiers:
- plugins: [{{name: priority}}, {{name: gang, arguments: {{gang.eviction: whole}}}}]
- plugins: [{{name: predicates}}, {{name: proportion}}, {{name: binpack}}]
pools:
- name: default
  algorithm: {algorithm}
  rate-limit: {rate}
  minimum-time: {least}
  hysteresis: {hysteresis}
  restart: {restart}
"""


def config(
    algorithm: str = "elastic-fifo", rate: str = "0", least: str = "0", hysteresis: int = 0, restart: str = "0"
) -> Config:
    """All brakes off unless given."""
    return configured(
        CONFIG.format(algorithm=algorithm, rate=rate, least=least, hysteresis=hysteresis, restart=restart)
    )


def sizes(before: Cluster, plans: list[Plan]) -> dict[str, int]:
    """How many workers each elastic job finally has."""
    now = {job.key.partition("/")[2]: job.elastic.now for job in before.jobs if job.elastic is not None}
    for plan in plans:
        now.update({r.job.partition("/")[2]: r.after for r in plan.resize})
        now.update({r.job.partition("/")[2]: r.size for r in plan.resume})
        now.update({s.job.partition("/")[2]: 0 for s in plan.suspend})
    return now


def test_a_suspended_job_starts_with_all_it_can_use() -> None:
    scene_ = cluster(node("n1", gpu=8), elastic("a", 2, 4))
    plans = scene(scene_, config())
    assert [Resume("ns/a", 4)] == [Resume(r.job, r.size) for r in plans[0].resume]
    assert (Reserve("ns/a", "n1", 4),) == plans[0].reserve
    assert {f"ns/a-worker-{i}" for i in range(4)} == {b.task for b in plans[1].bind}
    assert () == plans[1].reserve


def test_free_room_is_shared_round_robin() -> None:
    scene_ = cluster(
        node("n1", gpu=8), elastic("a", 1, 8, job={"created": 1.0}), elastic("b", 1, 8, job={"created": 2.0})
    )
    assert {"a": 4, "b": 4} == sizes(scene_, scene(scene_, config()))


def test_shrinks_come_first_and_growth_waits_for_their_room() -> None:
    scene_ = cluster(node("n1", gpu=4), elastic("a", 1, 4, on=["n1"] * 4), elastic("b", 2, 2, job={"created": 5.0}))
    plans = scene(scene_, config())
    assert [("ns/a", 4, 2)] == [(r.job, r.before, r.after) for r in plans[0].resize]
    assert ["ns/b"] == [r.job for r in plans[0].resume]
    assert () == plans[0].evict, "the operator removes workers, they are not evicted"
    assert {"a": 2, "b": 2} == sizes(scene_, plans)


def test_a_job_that_gets_nothing_waits_with_its_reason() -> None:
    scene_ = cluster(node("n1", gpu=4), elastic("a", 4, 4, on=["n1"] * 4), elastic("b", 2, 2, job={"created": 5.0}))
    plan = scene(scene_, config())[0]
    assert not plan.moves
    assert ["needs at least 2 workers with 1 GPU each: `elastic-fifo` gives it none in pool `default` now"] == [
        r.message for w in plan.waiting for r in w.reasons
    ]


def test_whole_workers_on_nodes_count_not_the_sum_of_gpus() -> None:
    """Six nodes with 4 free GPUs each are 24 GPUs, but have no room for a worker of 8."""
    nodes = [node(f"n{i}", gpu=8) for i in range(6)]
    rigid = [gang(f"r{i}", 1, gpu=4, on=[f"n{i}"]) for i in range(6)]
    scene_ = cluster(nodes, rigid, elastic("big", 1, 2, gpu=8), elastic("small", 1, 3, gpu=4, job={"created": 9.0}))
    assert {"big": 0, "small": 3} == sizes(scene_, scene(scene_, config()))


def test_worker_slots_are_not_counted_as_gpus() -> None:
    """Its workers would fit 64 times; the other jobs share the 8 GPUs."""
    scene_ = cluster(
        node("n1", gpu=8, cpu=64),
        elastic("a", 1, 32, job={"created": 1.0}),
        elastic("b", 1, 32, job={"created": 2.0}),
        elastic("cpu", 1, 4, gpu=0, job={"created": 3.0}),
    )
    assert {"a": 4, "b": 4, "cpu": 4} == sizes(scene_, scene(scene_, config()))


def test_jobs_that_can_use_some_nodes_only_share_these() -> None:
    there = {"node_selector": (Requirement("gpu", "In", ("a100",)),)}
    scene_ = cluster(
        node("n1", gpu=8, labels={"gpu": "a100"}),
        node("n2", gpu=8),
        elastic("a", 1, 16, constraints=there, job={"created": 1.0}),
        elastic("b", 1, 16, constraints=there, job={"created": 2.0}),
        elastic("c", 1, 16, job={"created": 3.0}),
    )
    assert {"a": 4, "b": 4, "c": 8} == sizes(scene_, scene(scene_, config()))


def test_no_job_grows_into_the_minimum_of_an_earlier_job() -> None:
    """Two nodes have 3 GPUs each, so there is room for two workers of 2: one for each of the first two jobs."""
    scene_ = cluster(
        *(node(f"n{i}", gpu=3) for i in range(2)),
        elastic("a", 1, 8, gpu=2, job={"created": 1.0}),
        elastic("b", 1, 8, gpu=2, job={"created": 2.0}),
        elastic("c", 1, 8, gpu=3, job={"created": 3.0}),
    )
    assert {"a": 1, "b": 1, "c": 0} == sizes(scene_, scene(scene_, config()))


def test_cordons_and_foreign_pods_are_no_capacity() -> None:
    scene_ = cluster(
        node("n1", gpu=4),
        node("n2", gpu=4, unschedulable=True),
        gang("foreign", 1, gpu=1, on=["n1"]),
        elastic("a", 1, 8),
    )
    assert {"a": 3} == sizes(scene_, scene(scene_, config()))


def test_a_lost_node_shrinks_jobs_to_what_is_left() -> None:
    job = elastic("a", 1, 8, on=["n1"] * 4, size=8)
    scene_ = cluster(node("n1", gpu=4), job)
    assert {"a": 4} == sizes(scene_, scene(scene_, config()))


def test_a_waiting_gang_of_equal_priority_goes_before_growth() -> None:
    """The gang needs 4 GPUs and 2 are free. The elastic job could use them but must not."""
    scene_ = cluster(
        node("n1", gpu=8), gang("r", 2, gpu=1, on=["n1"] * 2), elastic("a", 2, 8, on=["n1"] * 4), gang("g", 4, gpu=1)
    )
    plans = scene(scene_, config())
    assert {"a": 4} == sizes(scene_, plans)
    assert () == plans[0].bind


def test_a_waiting_gang_of_lower_priority_does_not_stop_growth() -> None:
    scene_ = cluster(node("n1", gpu=8), elastic("a", 2, 8, on=["n1"] * 4, priority=5), gang("g", 5, gpu=1))
    assert {"a": 8} == sizes(scene_, scene(scene_, config()))


def test_a_gang_that_can_never_fit_stops_no_growth() -> None:
    scene_ = cluster(node("n1", gpu=8), elastic("a", 2, 8, on=["n1"] * 4), gang("g", 50, gpu=1))
    assert {"a": 8} == sizes(scene_, scene(scene_, config()))


def test_preempt_shrinks_before_it_evicts() -> None:
    """A rigid job of lowest priority would be the cheaper victim, but a shrink comes before any eviction."""
    scene_ = cluster(
        node("n1", gpu=8),
        gang("low", 4, minimum=1, gpu=1, on=["n1"] * 4, priority=1),
        elastic("a", 1, 4, on=["n1"] * 4, priority=2),
        gang("high", 3, gpu=1, priority=10),
    )
    plans = scene(scene_, config())
    assert [("ns/a", 4, 1)] == [(r.job, r.before, r.after) for r in plans[0].resize]
    assert () == plans[0].evict
    assert 3 == sum(b.task.startswith("ns/high") for p in plans for b in p.bind)


def test_a_shrink_takes_the_highest_indices_wherever_they_are() -> None:
    """The gang needs a whole node with workers 0 and 1, while 4 and 5 are elsewhere: only a suffix may leave."""
    on = ["n1", "n1", "n2", "n2"]
    scene_ = cluster(
        node("n1", gpu=2), node("n2", gpu=2), elastic("a", 1, 4, on=on), gang("high", 1, gpu=2, priority=10)
    )
    plans = scene(scene_, config())
    assert [("ns/a", 4, 2)] == [(r.job, r.before, r.after) for r in plans[0].resize]
    assert {"n2"} == {b.node for p in plans for b in p.bind if "high" in b.task}


def test_a_whole_elastic_job_that_must_go_is_suspended() -> None:
    scene_ = cluster(node("n1", gpu=4), elastic("a", 4, 4, on=["n1"] * 4), gang("high", 4, gpu=1, priority=10))
    plans = scene(scene_, config())
    assert ["ns/a"] == [s.job for s in plans[0].suspend]
    assert () == plans[0].evict
    assert {"a": 0} == sizes(scene_, plans)


def test_reclaim_shrinks_the_other_queues_elastic_job() -> None:
    queues = [Queue("one"), Queue("two")]
    scene_ = cluster(
        node("n1", gpu=8),
        queues,
        elastic("a", 1, 8, on=["n1"] * 8, job={"queue": "one"}),
        gang("g", 4, gpu=1, queue="two"),
    )
    plans = scene(scene_, config())
    assert {"a": 4} == sizes(scene_, plans)
    assert () == tuple(e for p in plans for e in p.evict)


def test_a_queues_limit_bounds_the_sum_of_its_jobs() -> None:
    limited = Queue("one", capability={GPU: 4})
    scene_ = cluster(
        node("n1", gpu=8),
        limited,
        elastic("a", 1, 8, job={"queue": "one", "created": 1.0}),
        elastic("b", 1, 8, job={"queue": "one", "created": 2.0}),
        elastic("c", 1, 3, job={"created": 3.0}),
    )
    assert {"a": 2, "b": 2, "c": 3} == sizes(scene_, scene(scene_, config()))


@pytest.mark.parametrize("on", [[], ["n1"] * 4])
def test_the_limit_of_a_queue_above_bounds_all_below_it(on: list[str]) -> None:
    """The algorithm divides the limit, and workers above it are removed."""
    text = CONFIG.replace("{{name: proportion}}", "{{name: capacity, enableHierarchy: true}}")
    tree = configured(text.format(algorithm="elastic-fifo", rate=0, least=0, hysteresis=0, restart=0))
    scene_ = cluster(
        node("n1", gpu=16),
        Queue("org", capability={GPU: 4}),
        *(Queue(name, parent="org") for name in ("one", "two")),
        elastic("a", 1, 8, on=on, job={"queue": "one", "created": 1.0}),
        elastic("b", 1, 8, on=on, job={"queue": "two", "created": 2.0}),
        elastic("c", 1, 5, job={"created": 3.0}),
    )
    assert {"a": 2, "b": 2, "c": 5} == sizes(scene_, scene(scene_, tree))


@pytest.mark.parametrize("brake", [{"restart": "30s"}, {"least": "60s"}, {"hysteresis": 9}])
def test_no_brake_keeps_a_queue_above_its_capability(brake: dict[str, Any]) -> None:
    """No other job needs the room."""
    scene_ = cluster(
        node("n1", gpu=16),
        Queue("one", capability={GPU: 4}),
        elastic("a", 2, 8, on=["n1"] * 8, past=Past(last_resize=90.0), job={"queue": "one", "created": 1.0}),
        elastic("b", 2, 8, on=["n1"] * 4, past=Past(last_resize=90.0), job={"queue": "one", "created": 2.0}),
    )
    assert {"a": 2, "b": 2} == sizes(scene_, scene(scene_, config(**brake), now=100.0))


def test_slots_hide_no_limit_of_gpus() -> None:
    """A job without GPUs may have any number of slots."""
    scene_ = cluster(
        node("n1", gpu=16, cpu=64),
        Queue("one", capability={GPU: 4}),
        elastic("a", 2, 8, on=["n1"] * 8, job={"queue": "one", "created": 1.0}),
        elastic("cpu", 2, 8, gpu=0, on=["n1"] * 2, job={"queue": "one", "created": 2.0}),
    )
    assert {"a": 4, "cpu": 8} == sizes(scene_, scene(scene_, config()))


def test_above_what_it_deserves_a_queue_is_kept_by_brakes() -> None:
    """A gang of another queue deserves half of the cluster, but no node could hold it."""
    nowhere = {"node_selector": (Requirement("rack", "In", ("none",)),)}
    scene_ = cluster(
        node("n1", gpu=8),
        *(Queue(name) for name in ("one", "two")),
        elastic("a", 1, 8, on=["n1"] * 8, job={"queue": "one"}),
        gang("never", 1, gpu=8, queue="two", constraints=nowhere),
    )
    assert {"a": 4} == sizes(scene_, scene(scene_, config()))
    assert {"a": 8} == sizes(scene_, scene(scene_, config(restart="30s")))


def test_workers_of_any_width_fill_a_limit() -> None:
    """Ten GPUs are two workers of four and two of one, for either order of jobs."""
    for wide, narrow in (("a", "b"), ("b", "a")):
        scene_ = cluster(
            node("n1", gpu=16),
            Queue("one", capability={GPU: 10}),
            elastic(wide, 1, 8, gpu=4, job={"queue": "one"}),
            elastic(narrow, 1, 8, job={"queue": "one"}),
        )
        assert {wide: 2, narrow: 2} == sizes(scene_, scene(scene_, config()))


@pytest.mark.parametrize("above", [False, True])
def test_in_a_closed_queue_jobs_keep_running_and_none_starts(above: bool) -> None:
    text = CONFIG.replace("{{name: proportion}}", "{{name: capacity, enableHierarchy: true}}")
    tree = configured(text.format(algorithm="elastic-fifo", rate=0, least=0, hysteresis=0, restart=0))
    scene_ = cluster(
        node("n1", gpu=16),
        Queue("org", open=not above),
        Queue("one", parent="org", open=above),
        elastic("a", 2, 8, on=["n1"] * 4, job={"queue": "one", "created": 1.0}),
        elastic("b", 2, 8, job={"queue": "one", "created": 2.0}),
    )
    plans = scene(scene_, tree)
    assert {"a": 4, "b": 0} == sizes(scene_, plans)
    assert [("ns/b", "queue `one` is closed")] == [(w.job, r.message) for w in plans[0].waiting for r in w.reasons]


def test_a_guarantee_is_kept_for_its_queue() -> None:
    sure = Queue("sure", guarantee={GPU: 2})
    scene_ = cluster(
        node("n1", gpu=8),
        sure,
        elastic("a", 1, 8, job={"created": 1.0}),
        elastic("s", 2, 2, job={"queue": "sure", "created": 2.0}),
    )
    assert {"a": 6, "s": 2} == sizes(scene_, scene(scene_, config()))


def test_priority_decides_who_starts() -> None:
    scene_ = cluster(
        node("n1", gpu=2), elastic("old", 2, 2, on=["n1"] * 2), elastic("new", 2, 2, priority=5, job={"created": 9.0})
    )
    plans = scene(scene_, config())
    assert {"old": 0, "new": 2} == sizes(scene_, plans)


def test_a_pool_that_changed_is_left_alone_for_its_rate_limit() -> None:
    scene_ = cluster(node("n1", gpu=4), elastic("a", 1, 4, on=["n1"] * 2), resized={"default": 90.0})
    plans, _ = cycles(scene_, config(rate="30s"), 1, now=100.0)
    assert not plans[0].moves
    assert 120.0 == plans[0].wake_at
    plans, _ = cycles(scene_, config(rate="30s"), 1, now=120.0)
    assert [("ns/a", 2, 4)] == [(r.job, r.before, r.after) for r in plans[0].resize]


def test_a_job_keeps_its_size_for_the_minimum_time() -> None:
    """The other job continues to grow."""
    past = Past(last_resize=90.0, counted=90.0)
    scene_ = cluster(
        node("n1", gpu=8),
        elastic("a", 1, 4, on=["n1"] * 2, past=past),
        elastic("b", 1, 4, on=["n1"], job={"created": 5.0}),
    )
    plans, _ = cycles(scene_, config(least="60s"), 1, now=100.0)
    assert [("ns/b", 1, 4)] == [(r.job, r.before, r.after) for r in plans[0].resize]
    assert 150.0 == plans[0].wake_at


def test_a_last_change_in_the_future_is_ignored() -> None:
    """It was written by hand. It neither keeps the job's size forever nor stops the pool."""
    forged = elastic("a", 1, 4, on=["n1"] * 4, past=Past(last_resize=1e12, counted=90.0))
    other = elastic("b", 1, 4, job={"created": 5.0}, past=Past(last_resize=90.0, since=90.0))
    scene_ = cluster(node("n1", gpu=4), forged, other)
    plans, _ = cycles(scene_, config(least="60s"), 1, now=100.0)
    assert [("ns/a", 4, 2)] == [(r.job, r.before, r.after) for r in plans[0].resize]
    for last, moves in ((90.0, False), (1e12, True)):
        (plan,), _ = cycles(
            msgspec.structs.replace(scene_, resized={"default": last}), config(rate="30s"), 1, now=100.0
        )
        assert moves == plan.moves


@pytest.mark.parametrize("last", [99.0, 100.0, 1e12])
def test_what_an_owner_writes_on_her_job_does_not_stop_the_pool(last: float) -> None:
    forged = elastic("forged", 1, 1, on=["n1"], past=Past(last_resize=last))
    scene_ = cluster(node("n1", gpu=4), forged, elastic("a", 1, 3, on=["n1"], job={"created": 5.0}))
    plans, after = cycles(scene_, config(rate="30s"), 1, now=100.0)
    assert [("ns/a", 1, 3)] == [(r.job, r.before, r.after) for r in plans[0].resize]
    assert {"default": 100.0} == after.resized


def test_room_is_not_kept_for_ever() -> None:
    for last, kept in ((100.0, True), (1.0, False), (1e12, False)):
        job = elastic("a", 2, 2, size=2, past=Past(last_resize=last), reserved=(("n1", 2),))
        job = msgspec.structs.replace(job, tasks=())
        scene_ = cluster(node("n1", gpu=2), job, gang("rigid", 1, gpu=2))
        plans, _ = cycles(scene_, config(), 1, now=1000.0 if last == 1.0 else 110.0)
        assert kept == (not plans[0].bind)


def test_growth_that_does_not_pay_is_not_made() -> None:
    """One more worker for the last 20 seconds of work is not worth a restart of 30."""
    ending = elastic("a", 1, 4, on=["n1"] * 3, remaining=60.0)
    assert not scene(cluster(node("n1", gpu=4), ending), config(restart="30s"))[0].moves
    going = elastic("a", 1, 4, on=["n1"] * 3, remaining=60000.0)
    assert scene(cluster(node("n1", gpu=4), going), config(restart="30s"))[0].resize


def test_an_elastic_job_is_as_long_as_the_history_says() -> None:
    """Growth does not pay for a job that is nearly done, as earlier jobs tell, unless its owner promises more."""
    past = Past(first_start=0.0, since=0.0, attained=1000.0, counted=100.0)
    for half, job, grows in ((1060.0, {}, False), (1060.0, {"promise": 1e6}, True), (61_000.0, {}, True)):
        length = Estimate(half, 2 * half, 10)
        scene_ = elastic("a", 1, 4, on=["n1"] * 3, past=past, length=length, job=job)
        plans, _ = cycles(cluster(node("n1", gpu=4), scene_), config(restart="30s"), 1, now=100.0)
        assert grows == bool(plans[0].resize)


def test_jobs_of_a_kind_are_as_long_as_the_furthest_of_them_shows() -> None:
    """The second is nearly as far, so it is not nearly done."""
    past = Past(first_start=0.0, since=0.0, attained=60.0, counted=100.0)
    for kind, grows in (("", True), ("ns/a", False)):
        jobs = [elastic(name, 1, 4, on=[name] * 3, past=past, kind=kind) for name in ("a-1", "a-2")]
        plans, _ = cycles(
            cluster(*(node(name, gpu=4) for name in ("a-1", "a-2")), jobs), config(restart="30s"), 1, now=100.0
        )
        assert grows == bool(plans[0].resize)


def test_a_brake_at_zero_is_off_whatever_was_learnt() -> None:
    learnt = elastic("a", 1, 4, on=["n1"] * 3, remaining=60.0, restart=30.0)
    assert not scene(cluster(node("n1", gpu=4), learnt), config(restart="1s"))[0].moves
    assert scene(cluster(node("n1", gpu=4), learnt), config(restart="0"))[0].resize


def test_small_changes_are_not_made_under_hysteresis() -> None:
    scene_ = cluster(node("n1", gpu=4), elastic("a", 1, 4, on=["n1"] * 3))
    assert not scene(scene_, config(hysteresis=1))[0].moves
    assert scene(scene_, config(hysteresis=0))[0].resize


def test_an_algorithm_that_fails_changes_nothing() -> None:
    """Voda treated a failed allocation as an empty plan and halted every job."""
    good = config()
    bad = good.pools[0].algorithm

    def fails(*_: object) -> object:
        raise RuntimeError("no answer")

    pool = msgspec.structs.replace(good.pools[0], algorithm=msgspec.structs.replace(bad, make=fails))
    broken = msgspec.structs.replace(good, pools=(pool,))
    scene_ = cluster(node("n1", gpu=4), elastic("a", 1, 4, on=["n1"] * 2), elastic("b", 1, 1))
    plan = scene(scene_, broken)[0]
    assert not plan.moves
    assert all("no answer" in target.why for target in plan.targets)


def test_tiresias_demotes_and_the_plan_says_when() -> None:
    """One GPU. `a` has attained 3,590 GPU seconds; in ten seconds it is demoted behind `b`."""
    past = Past(attained=3590.0, counted=100.0, first_start=0.0, since=0.0)
    scene_ = cluster(
        node("n1", gpu=1), elastic("a", 1, 1, on=["n1"], past=past), elastic("b", 1, 1, job={"created": 50.0})
    )
    plans, after = cycles(scene_, config("tiresias"), 1, now=100.0)
    assert not plans[0].moves
    assert plans[0].wake_at is not None
    assert 110.0 < plans[0].wake_at < 110.1
    plans, _ = cycles(after, config("tiresias"), 1, now=plans[0].wake_at)
    assert [Suspend("ns/a")] == [Suspend(s.job) for s in plans[0].suspend]
    assert ["ns/b"] == [r.job for r in plans[0].resume]
    assert 10.0 < plans[0].suspend[0].past.attained - 3590.0 < 10.1, "attained service adds up"


def test_pools_are_planned_apart() -> None:
    text = CONFIG.format(algorithm="elastic-fifo", rate=0, least=0, hysteresis=0, restart=0)
    two = configured(
        text + "- {name: a100, nodes: {gpu: a100}, algorithm: fifo, rate-limit: 0, minimum-time: 0, restart: 0}\n"
    )
    selects = {"node_selector": (Requirement("gpu", "In", ("a100",)),)}
    scene_ = cluster(
        node("n1", gpu=4, labels={"gpu": "a100"}),
        node("n2", gpu=4),
        elastic("a", 2, 8, constraints=selects),
        elastic("b", 1, 8),
    )
    assert {"a": 2, "b": 4} == sizes(scene_, scene(scene_, two))


def test_a_cpu_pool_counts_worker_slots() -> None:
    scene_ = cluster(node("n1", cpu=8), elastic("a", 1, 8, gpu=0, cpu=2))
    assert {"a": 4} == sizes(scene_, scene(scene_, config()))


def test_pods_beside_the_workers_have_their_room() -> None:
    """A master with its own GPU leaves one GPU less for workers."""
    scene_ = cluster(node("n1", gpu=4), elastic("a", 1, 8, beside=(shape(gpu=1),)))
    plans = scene(scene_, config())
    assert {"a": 3} == sizes(scene_, plans)
    assert 4 == sum(len(p.bind) for p in plans)


def test_workers_lie_on_as_few_nodes_as_possible() -> None:
    nodes = [node(f"n{i}", gpu=8) for i in range(3)]
    scene_ = cluster(nodes, gang("r", 1, gpu=4, on=["n0"]), elastic("a", 8, 8))
    plans = scene(scene_, config())
    assert 1 == len({b.node for p in plans for b in p.bind})


def test_workers_move_only_where_that_is_switched_on_and_pays() -> None:
    """Two jobs of two workers, each across both nodes: after two moves each job has its own node."""
    on = [["n1", "n2"], ["n2", "n1"]]
    scene_ = cluster(
        node("n1", gpu=2), node("n2", gpu=2), *(elastic(n, 1, 2, on=o) for n, o in zip("ab", on, strict=True))
    )
    off = config(restart="1s")
    assert not scene(scene_, off)[0].moves
    switched = msgspec.structs.replace(off, pools=(msgspec.structs.replace(off.pools[0], migrate=True),))
    plans = scene(scene_, switched)
    assert ["ns/a-worker-1", "ns/b-worker-1"] == [e.task for e in plans[0].evict], "worker 0 never moves"
    assert {("ns/a-worker-1", "n1"), ("ns/b-worker-1", "n2")} == {(b.task, b.node) for p in plans for b in p.bind}
    costly = msgspec.structs.replace(switched, pools=(msgspec.structs.replace(switched.pools[0], restart=1e6),))
    assert not scene(scene_, costly)[0].moves


def packing(algorithm: str = "elastic-fifo") -> Config:
    off = config(algorithm)
    return msgspec.structs.replace(off, pools=(msgspec.structs.replace(off.pools[0], pack=True),))


def crowded(**options: Any) -> Cluster:
    """A full node and an empty one. The job `a` has one worker on the full node, and may have four."""
    others = [elastic(name, 1, 1, on=["n1"]) for name in "bcd"]
    return cluster(node("n1", gpu=4), node("n2", gpu=4), elastic("a", 1, 4, on=["n1"], **options), *others)


def test_a_job_that_grows_moves_to_the_fewest_nodes_where_that_is_switched_on() -> None:
    plans = scene(crowded(), config())
    assert {("ns/a-worker-1", "n2"), ("ns/a-worker-2", "n2"), ("ns/a-worker-3", "n2")} == {
        (b.task, b.node) for p in plans for b in p.bind
    }
    plans = scene(crowded(), packing())
    assert ["ns/a-worker-0"] == [e.task for e in plans[0].evict]
    assert [("ns/a", 1, 4)] == [(r.job, r.before, r.after) for r in plans[0].resize]
    assert (Reserve("ns/a", "n2", 4),) == plans[0].reserve
    assert {(f"ns/a-worker-{i}", "n2") for i in range(4)} == {(b.task, b.node) for p in plans for b in p.bind}


def test_a_job_that_must_not_move_grows_where_it_is_or_not_at_all() -> None:
    protected = crowded(pausable=False)
    assert {"a": 1, "b": 1, "c": 1, "d": 1} == sizes(protected, scene(protected, packing()))


def test_a_job_grows_as_far_as_one_node_takes_it_and_others_get_the_rest() -> None:
    """Six of eight GPUs are free, three on each node: no more than three are on one node."""
    rigid = [gang(f"r{i}", 1, gpu=1, on=[f"n{i}"]) for i in (1, 2)]
    before = cluster(node("n1", gpu=4), node("n2", gpu=4), *rigid, elastic("a", 1, 4), elastic("b", 1, 4))
    assert {"a": 3, "b": 3} == sizes(before, scene(before, packing()))
    alone = cluster(node("n1", gpu=4), node("n2", gpu=4), *rigid, elastic("a", 1, 4))
    assert {"a": 4} == sizes(alone, scene(alone, config()))
    assert {"a": 3} == sizes(alone, scene(alone, packing()))


def test_the_minimum_of_a_waiting_job_may_be_spread() -> None:
    rigid = [gang(f"r{i}", 1, gpu=1, on=[f"n{i}"]) for i in (1, 2)]
    before = cluster(node("n1", gpu=2), node("n2", gpu=2), *rigid, elastic("a", 2, 2))
    assert {"a": 2} == sizes(before, scene(before, packing()))


def test_workers_that_an_earlier_plan_sent_away_are_not_evicted() -> None:
    """The size is two, but the operator has not deleted the third worker yet."""
    job = elastic("a", 1, 2, on=["n1"] * 3, size=3)
    assert job.job.elastic is not None
    elastic_ = msgspec.structs.replace(job.job.elastic, size=2)
    job = msgspec.structs.replace(job, job=msgspec.structs.replace(job.job, elastic=elastic_))
    plans, _ = cycles(cluster(node("n1", gpu=3), job), config(), 1)
    assert not plans[0].moves


def test_room_freed_by_an_earlier_plan_is_releasing_while_its_pods_exist() -> None:
    """`d` was just suspended and `a` reduced to two workers, but their operator has not deleted a pod yet."""
    going = elastic("d", 2, 2, on=["n1"] * 2, suspended=True)
    shrunk = elastic("a", 1, 4, on=["n1"] * 3)
    assert shrunk.job.elastic is not None
    elastic_ = msgspec.structs.replace(shrunk.job.elastic, size=2)
    shrunk = msgspec.structs.replace(shrunk, job=msgspec.structs.replace(shrunk.job, elastic=elastic_))
    started = elastic("e", 3, 3, size=3, priority=5, reserved=(("n1", 3),))
    (plan,), _ = cycles(cluster(node("n1", gpu=5), going, shrunk, started), config(), 1)
    assert ((), (), (), ()) == (plan.resize, plan.suspend, plan.resume, plan.evict)
    assert {f"ns/e-worker-{i}": "n1" for i in range(3)} == {n.task: n.node for n in plan.nominate}


@pytest.mark.parametrize(
    ("status", "now", "starts"),
    [
        (Status.BOUND, 500.0, False),
        (Status.RELEASING, 500.0, False),
        (Status.RELEASING, 900.0, True),
        (Status.FAILED, 30.0, False),
        (Status.SUCCEEDED, 30.0, False),
        (Status.FAILED, 900.0, True),
    ],
)
def test_a_stopped_job_starts_once_its_old_pods_are_gone(status: Status, now: float, starts: bool) -> None:
    """Its operator would mistake their end for the end of the job; no other job gets its room.

    Finished pods that some kinds keep, and pods stuck on a lost node, do not delay the start.
    """
    job = elastic("a", 2, 2, on=["n1"] * 2, suspended=True, past=Past(last_resize=1.0, since=1.0))
    job = msgspec.structs.replace(job, tasks=[msgspec.structs.replace(task, status=status) for task in job.tasks])
    (plan,), _ = cycles(cluster(node("n1", gpu=5), job, elastic("b", 1, 8, on=["n1"])), config(), 1, now)
    assert (["ns/a"] if starts else []) == [r.job for r in plan.resume]
    assert [("ns/b", 3)] == [(r.job, r.after) for r in plan.resize]
    if not starts:
        (target,) = [t for t in plan.targets if t.job == "ns/a"]
        why = "its old pods are still terminating: it starts when they are gone"
        assert (0, 2, why) == (target.size, target.planned, target.why)
        (wait,) = [wait for wait in plan.waiting if wait.job == "ns/a"]
        assert [("Nominated", f"2 of {why}")] == [(reason.code, reason.message) for reason in wait.reasons]
        assert (61.0 if now < 60 else 601.0) == plan.wake_at


@pytest.mark.parametrize("indices", [(0, 0, 0, 0), (0, 0, 24796, 0), (24796, 55248, 88642, 22222)])
def test_a_job_whose_pods_have_no_indices_shrinks_by_the_newest(indices: tuple[int, ...]) -> None:
    """As the pods of a batch Job that is not Indexed, whose names end in anything. Tested at its size and below."""
    job = elastic("a", 1, 4, on=["n1", "n1", "n2", "n2"])
    named = zip(job.tasks, sorted(indices), range(4), strict=True)
    pods = [msgspec.structs.replace(task, index=index, created=float(age)) for task, index, age in named]
    job = msgspec.structs.replace(job, tasks=tuple(pods))
    nodes = [node(f"n{i}", gpu=2) for i in (1, 2)]
    (plan,), _ = cycles(cluster(nodes, job), config(), 1)
    assert (False, ()) == (plan.moves, plan.reserve)
    (plan,), _ = cycles(cluster(nodes, job, elastic("b", 2, 2, job={"created": 5.0})), config(), 1)
    assert [("ns/a", 4, 2)] == [(r.job, r.before, r.after) for r in plan.resize]
    assert (Reserve("ns/b", "n2", 2),) == plan.reserve


def test_a_job_that_keeps_its_size_says_why() -> None:
    keeps = "its workers' `restartPolicy` is `Never`"
    scene_ = cluster(
        node("n1", gpu=4), elastic("a", 2, 2, on=["n1"] * 2, keeps=keeps), elastic("b", 1, 4, job={"created": 5.0})
    )
    plan = scene(scene_, config())[0]
    assert {"ns/a": f"keeps its size for now: {keeps}", "ns/b": "elastic-fifo in pool `default`"} == {
        t.job: t.why for t in plan.targets
    }


def test_leaving_pods_are_not_evicted() -> None:
    """A gang waits for the room of a job that was just suspended for it."""
    going = elastic("d", 2, 2, on=["n1"] * 2, suspended=True)
    (plan,), _ = cycles(cluster(node("n1", gpu=2), going, gang("rigid", 1, gpu=2, priority=9)), config(), 1)
    assert () == plan.evict
    assert ["ns/rigid-0"] == [n.task for n in plan.nominate]


def test_workers_placed_and_removed_in_one_cycle_did_not_give_way() -> None:
    """allocate places two waiting workers, resize takes their room back, and preempt evicts others in one cycle."""
    scene_ = cluster(
        node("n1", gpu=3, cpu=4),
        *(Queue(name) for name in ("red", "default")),
        elastic("grows", 1, 3, on=["n1"], size=3, priority=1, job={"queue": "red"}),
        elastic("waits", 1, 1, job={"queue": "red"}),
        elastic("runs", 1, 1, on=["n1"]),
        gang("high", 2, priority=2),
        *(gang(f"low{i}", 1) for i in range(3)),
    )
    (plan,), _ = cycles(scene_, config(), 1)
    assert [("ns/grows", 3, 1)] == [(r.job, r.before, r.after) for r in plan.resize]


@pytest.mark.parametrize("launcher", [False, True])
def test_a_job_whose_work_is_done_is_not_stopped_before_its_operator_says_so(launcher: bool) -> None:
    """If suspended now, it would lose its pods and run again."""
    done = {"status": Status.SUCCEEDED}
    job = elastic("a", 2, 2, on=["n1"] * 2)
    workers = job.tasks if launcher else [msgspec.structs.replace(task, **done) for task in job.tasks]
    beside = tasks("ns/a", 1, shape(cpu=1), on=["n1"], role="launcher", controlled=True, **done) if launcher else ()
    job = msgspec.structs.replace(job, tasks=(*workers, *beside))
    for other in ((), (elastic("b", 2, 2, priority=9),)):
        plans, _ = cycles(cluster(node("n1", gpu=2), job, *other), config(), 1)
        assert () == plans[0].suspend


def test_a_queue_requests_workers_in_place_of_leaving_ones() -> None:
    """All pods of a suspended job are leaving; it may start again as soon as they are gone."""
    job = elastic("a", 2, 2, on=["n1"] * 2, suspended=True)
    going = [msgspec.structs.replace(task, status=Status.RELEASING) for task in job.tasks]
    plans, _ = cycles(cluster(node("n1", gpu=4), msgspec.structs.replace(job, tasks=tuple(going))), config(), 1)
    assert [("ns/a", 2)] == [(t.job, t.planned) for t in plans[0].targets]


def test_a_running_launcher_does_not_count_as_a_worker() -> None:
    """Three workers and their launcher are four pods; the queue still requests the fourth worker."""
    beside = shape(cpu=1)
    job = elastic("a", 2, 4, on=["n1"] * 3, beside=(beside,))
    launcher = tasks("ns/a", 1, beside, on=["n1"], role="launcher", controlled=True)
    job = msgspec.structs.replace(job, tasks=(*job.tasks, *launcher))
    scene_ = cluster(node("n1", gpu=8), job)
    assert {"a": 4} == sizes(scene_, scene(scene_, config()))


@pytest.mark.parametrize(("low", "high"), [(2, 2), (2, 4)])
def test_a_future_launcher_does_not_count_as_a_worker(low: int, high: int) -> None:
    """The queue requests it beside the workers, so all start at once."""
    scene_ = cluster(node("n1", gpu=8), elastic("a", low, high, beside=(shape(cpu=1),)))
    plans = scene(scene_, config())
    assert [high] == [resume.size for resume in plans[0].resume]
    assert high + 1 == sum(len(p.bind) for p in plans)


@pytest.mark.parametrize(("gpus", "expected"), [(8, [4]), (5, [4]), (4, [3]), (3, [2]), (2, [])])
def test_a_master_with_the_shape_of_a_worker_is_not_a_worker(gpus: int, expected: list[int]) -> None:
    """With equal GPUs, room kept for the master must not count as room for a worker, nor the reverse."""
    scene_ = cluster(node("n1", gpu=gpus), elastic("a", 2, 4, beside=(shape(cpu=1, gpu=1),)))
    plans = scene(scene_, config())
    assert expected == [resume.size for resume in plans[0].resume]
    assert sum(expected) + len(expected) == sum(len(p.bind) for p in plans)


def test_a_resting_gang_still_waits() -> None:
    """In live mode, jobs for which nothing changed are skipped, but their room is not given away."""
    scene_ = cluster(
        node("n1", gpu=8), gang("r", 2, gpu=1, on=["n1"] * 2), elastic("a", 2, 8, on=["n1"] * 4), gang("g", 4, gpu=1)
    )
    snapshot = Snapshot(scene_)
    snapshot.resting = frozenset({snapshot.jobs.number["ns/g"]})
    assert not decide(snapshot, config(), 0.0).moves


def test_time_in_which_its_owner_paused_a_job_is_not_attained() -> None:
    """Counted at 10, paused by its owner, running again with two workers since 100: at 110 this adds 20 seconds."""
    past = Past(attained=5.0, counted=10.0, first_start=0.0, since=0.0)
    job = elastic("a", 1, 4, on=["n1"] * 2, past=past)
    job = msgspec.structs.replace(job, tasks=tuple(msgspec.structs.replace(t, started=100.0) for t in job.tasks))
    plans, _ = cycles(cluster(node("n1", gpu=4), job), config(), 1, now=110.0)
    assert [25.0] == [resize.past.attained for resize in plans[0].resize]


def test_forged_holds_are_limited_to_the_largest_size_and_the_queue() -> None:
    """Anyone who may edit a job can write its size, its holds and when they began."""
    shared = msgspec.structs.replace(config(), actions=config().actions[1:2])
    lone = msgspec.structs.replace(shared, tiers=(shared.tiers[0], shared.tiers[1][:1]))
    for high, limit, left, plugins in (
        (2, None, 6, lone),
        (8, None, 0, lone),
        (8, None, 4, shared),
        (8, {GPU: 3}, 5, shared),
    ):
        job = elastic("a", 1, high, size=100, past=Past(last_resize=100.0), reserved=(("n1", 100),), job={"queue": "q"})
        job = msgspec.structs.replace(job, tasks=())
        small = [gang(f"small-{i}", 1, gpu=1) for i in range(8)]
        scene_ = cluster(node("n1", gpu=8), job, small, Queue("default"), Queue("q", capability=limit))
        (plan,), _ = cycles(scene_, plugins, 1, now=110.0)
        assert left == len(plan.bind), (high, limit)


@pytest.mark.parametrize(
    "forged",
    [
        {"attained": -1e9},
        {"attained": 0.0, "counted": 999.0},
        {"attained": 5000.0, "forgiven": 5000.0, "counted": 1000.0},
        {"forgiven": 1e15},
        {"counted": 1e12, "first_start": 1e12, "since": 1e12},
        {"first_start": 0.0, "since": 0.0},
        {"ran": -5.0},
    ],
)
def test_a_forged_past_is_no_better_than_that_of_a_new_job_with_the_same_workers(forged: dict[str, float]) -> None:
    job = elastic("a", 1, 4, on=["n1"] * 2, past=Past(**forged), job={"created": 100.0})
    tasks = tuple(msgspec.structs.replace(t, started=200.0) for t in job.tasks)
    made = cluster(node("n1", gpu=4), msgspec.structs.replace(job, tasks=tasks))
    session = Session(Snapshot(made), config(), 1000.0)
    past = past_of(session, session.job(0))
    assert past.attained - past.forgiven >= 2 * 800.0, "as long as its workers have run"
    assert 100.0 <= (past.first_start or 0.0) <= 1000.0, "not before it was created"
    assert past.since is None or 100.0 <= past.since <= 1000.0
    assert (1000.0, True) == (past.counted, past.ran >= 0)


def test_an_honest_past_stays_as_it_is() -> None:
    had = Past(first_start=150.0, since=300.0, attained=9000.0, counted=900.0, forgiven=500.0, last_resize=900.0)
    job = elastic("a", 1, 4, on=["n1"] * 2, past=had, job={"created": 100.0})
    tasks = tuple(msgspec.structs.replace(t, started=300.0) for t in job.tasks)
    session = Session(Snapshot(cluster(node("n1", gpu=4), msgspec.structs.replace(job, tasks=tasks))), config(), 1000.0)
    assert msgspec.structs.replace(had, attained=9200.0, counted=1000.0) == past_of(session, session.job(0))
