"""Cluster depth: full sessions on virtual nodes, in small cases computed by hand, and properties."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from maar.config.config import Config
from maar.config.file import default_config
from maar.decide import decide
from maar.model.reasons import UNREAD
from maar.model.tasks import Status
from maar.registry import catalog
from maar.sim.cluster import ClusterPlay, simulate
from maar.sim.compare import ComparedRun, config_of
from maar.sim.faults import Chance, Faults, NodeEvent, What
from maar.sim.result import Run
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob
from maar.testing.scenario import configured

DEFAULT = default_config(catalog())
PREEMPTING = configured("""
actions: "allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    arguments: {gang.eviction: whole}
  - name: predicates
""")
SMALL = Setting(2, 4, restart=10.0, checkpoint=60.0)


def gang(name: str, submit: float, duration: float, workers: int, each: int = 1, **fields: object) -> TraceJob:
    job = TraceJob(name, submit, duration, workers * each, workers, each, workers, workers)
    return msgspec.structs.replace(job, **fields)


def elastic(name: str, submit: float, duration: float, least: int, workers: int, most: int) -> TraceJob:
    return TraceJob(name, submit, duration, workers, workers=workers, min=least, max=most)


def play(config: Config, setting: Setting, *jobs: TraceJob, managed: bool = False) -> Run:
    return simulate(Trace(jobs), config, setting, "test", managed)


def ends(run: Run) -> dict[str, float]:
    return {job.name: job.end for job in run.jobs}


def test_gangs_wait_for_whole_room_and_for_nodes() -> None:
    # Two GPUs are free on node-0 and two on node-1: a gang of 2 x 2 fits, a pod of 4 fits only after a has ended.
    a, b = gang("a", 0, 100, 1, 2), gang("b", 0, 500, 1, 2, queue="default")
    config = configured("""
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder, arguments: {leastrequested.weight: 10}}]
""")
    run = play(config, SMALL, a, b, gang("wide", 10, 50, 1, 4), gang("two", 20, 30, 2, 2))
    assert {"a": 100.0, "b": 500.0, "wide": 150.0, "two": 50.0} == ends(run)
    wide = run.jobs[2]
    assert (90.0, 50.0, 0, 200.0) == (wide.waited, wide.ran, wide.restarts, wide.gpu_seconds)


def test_a_waiting_job_that_is_cancelled_is_gone_and_delays_no_one() -> None:
    """`next` waits for 100 s and is cancelled at 10 s, when `last` comes: `last` starts instead of it."""
    jobs = (gang("first", 0, 100, 8), gang("next", 5, 50, 8), gang("last", 10, 7, 8))
    run = ClusterPlay(Trace(jobs), PREEMPTING, SMALL)
    while run.step():
        if run.plans[0][0] == 10.0:
            run.cancel("sim/next")
    result = run.run("test")
    assert {"first": 100.0, "last": 107.0} == ends(result)
    assert ("next",) == result.unfinished
    assert 0 == run.ledger.there


def test_an_evicted_gang_loses_what_it_did_not_save_and_starts_again() -> None:
    run = play(PREEMPTING, SMALL, gang("low", 0, 300, 8, priority=1), gang("high", 100, 50, 8, priority=10))
    # low has saved at 60 and is evicted at 100. It starts again at 150 and pauses for 10 s: 240 s are left.
    assert {"low": 150 + 10 + 240.0, "high": 150.0} == ends(run)
    assert ((0.0, 8), (100.0, 0), (150.0, 8), (400.0, 0)) == run.jobs[0].sizes
    assert 1 == run.summary.restarts


def test_elastic_jobs_share_and_resize() -> None:
    setting = msgspec.structs.replace(SMALL, restart=0.0)
    config = config_of(ComparedRun("elastic-fifo", depth="cluster"), setting)
    run = play(config, setting, elastic("a", 0, 1000, 1, 4, 8), elastic("b", 200, 400, 1, 4, 8))
    # a: 4000 worker-seconds; on 8 until 200 (1600), then 4 and 4 until b's 1600 are done at 600, then 800 on 8.
    assert {"a": 700.0, "b": 600.0} == ends(run)
    assert ((0.0, 8), (200.0, 4), (600.0, 8), (700.0, 0)) == run.jobs[0].sizes


def test_a_policy_manages_rigid_jobs_too() -> None:
    setting = msgspec.structs.replace(SMALL, restart=0.0)
    config = config_of(ComparedRun("srtf", depth="cluster"), setting)
    jobs = gang("long", 0, 1000, 8), gang("short", 100, 50, 8)
    assert {"long": 1050.0, "short": 150.0} == ends(play(config, setting, *jobs, managed=True))
    assert {"long": 1000.0, "short": 1050.0} == ends(play(config, setting, *jobs))


def test_a_failing_node_takes_whole_gangs_with_it() -> None:
    faults = Faults((NodeEvent(100, 0, What.FAIL), NodeEvent(200, 0, What.REPAIR)))
    setting = msgspec.structs.replace(SMALL, faults=faults)
    run = play(DEFAULT, setting, gang("a", 0, 300, 8))
    assert {"a": 200 + 10 + 240.0} == ends(run)
    drained = Faults((NodeEvent(100, 0, What.DRAIN), NodeEvent(200, 0, What.RETURN)))
    run = play(DEFAULT, msgspec.structs.replace(SMALL, faults=drained), gang("a", 0, 300, 8))
    assert {"a": 200 + 10 + 200.0} == ends(run)


def test_jobs_that_never_fit_are_left() -> None:
    run = play(DEFAULT, SMALL, gang("wide", 0, 10, 1, 5), gang("many", 0, 10, 9), gang("fits", 0, 10, 8))
    assert (("wide", "many"), {"fits": 10.0}) == (run.unfinished, ends(run))


def test_a_worker_that_needs_more_than_a_node_is_left_whatever_fails() -> None:
    # Each node is down half of the time, so all 20 are almost never up at once: no job waits for that.
    faults = Faults(chance=Chance(between=100.0, repair=100.0))
    setting = Setting(20, 1, faults=faults)
    run = play(DEFAULT, setting, gang("a", 0, 10, 1), gang("cpus", 0, 10, 1, cpu=17.0), gang("wide", 0, 10, 1, 2))
    assert ({"a": 10.0}, ("cpus", "wide")) == (ends(run), run.unfinished)


def test_a_run_ends_with_its_last_job_though_a_node_is_down() -> None:
    # 4 of 8 GPUs for 10 s, then 4 of the 4 that are left: 40 + 360 of 80 + 360 GPU seconds.
    faults = Faults((NodeEvent(10.0, 1, What.FAIL), NodeEvent(1e6, 1, What.REPAIR)))
    run = play(DEFAULT, msgspec.structs.replace(SMALL, faults=faults), gang("a", 0, 100, 1, 4))
    assert ({"a": 100.0}, 100.0) == (ends(run), run.samples[-1].time)
    assert pytest.approx(400 / 440) == run.gpu_utilisation


def test_a_job_that_nobody_will_ever_let_in_does_not_hold_up_the_end() -> None:
    nothing = configured('actions: "backfill"\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n')
    run = play(nothing, SMALL, gang("a", 0, 10, 1))
    assert (("a",), ()) == (run.unfinished, run.jobs)


JOBS = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.integers(1, 500),
        st.sampled_from([(1, 1, 1), (2, 2, 2), (3, 3, 3), (8, 8, 8), (1, 2, 4), (2, 4, 8)]),
        st.sampled_from([1, 1, 2]),
        st.integers(0, 2),
        st.sampled_from(["default", "other"]),
    ),
    min_size=1,
    max_size=8,
)


@given(JOBS, st.booleans(), st.booleans())
@example([(0, 1, (8, 8, 8), 1, 0, "default"), (0, 1, (8, 8, 8), 1, 0, "other")], False, False)
@settings(max_examples=60)
def test_safety_and_liveness(drawn: list, managed: bool, fails: bool) -> None:  # type: ignore[type-arg]
    """No node is over-committed, gangs run completely or not at all, and every job that fits ends."""
    jobs = tuple(
        TraceJob(
            f"job-{i}", float(submit), float(duration), workers * each, workers, each, least, most, queue, priority
        )
        for i, (submit, duration, (least, workers, most), each, priority, queue) in enumerate(drawn)
    )
    events = (NodeEvent(50, 0, What.FAIL), NodeEvent(400, 0, What.REPAIR)) if fails else ()
    setting = msgspec.structs.replace(SMALL, faults=Faults(events))
    play = ClusterPlay(Trace(jobs), DEFAULT, setting, managed)
    moments = 0
    while play.step():
        moments += 1
        assert moments < 20_000, "no end"
        _check(play)
    run = play.run("default")
    least = {j: j.min if j.elastic or managed else j.workers for j in jobs}
    fit = {j for j in jobs if least[j] <= 4 // j.gpus_per_worker * 2}
    ended = {job.name for job in run.jobs}
    assert ended <= {j.name for j in fit}
    left = {j for j in fit if j.name not in ended}
    # Under `proportion`, two gangs that are both larger than half of their queue wait for each other.
    assert not left or {"default", "other"} == {j.queue for j in left if least[j] * j.gpus_per_worker > 4}
    assert all(least[j] * j.gpus_per_worker > 4 for j in left)
    for record in run.jobs:
        assert record.submit <= record.started <= record.end
        assert record.end - record.submit == pytest.approx(record.waited + record.ran)


def _check(play: ClusterPlay) -> None:
    snapshot = play.virtual.snapshot()
    assert (snapshot.used <= snapshot.nodes.allocatable).all()
    assert play.ledger.used <= 8
    for key, (job, tasks) in play.virtual.jobs.items():
        bound = sum(task.status is Status.BOUND for task in tasks)
        assert bound == 0 or bound >= job.min_member, f"{key} runs in part"
        assert bound == play.works[key].size


def some_jobs() -> list[TraceJob]:
    jobs = [gang(f"g{i}", 30.0 * i, 200.0 + i, 1 + i % 5, priority=i % 2) for i in range(15)]
    return jobs + [elastic(f"e{i}", 45.0 * i, 300.0 + i, 1, 2, 4) for i in range(8)]


@pytest.mark.parametrize("config", [DEFAULT, PREEMPTING], ids=["default", "preempting"])
def test_plans_are_the_same_though_nobody_reads_why_jobs_wait(config: Config) -> None:
    play, unread = ClusterPlay(Trace(tuple(some_jobs())), config, SMALL), 0
    while play.step():
        now, snapshot = play.plans[-1][0], play.virtual.snapshot()
        told = decide(snapshot, config, now)
        snapshot.is_read = False
        plan = decide(snapshot, config, now)
        assert [wait.job for wait in told.waiting] == [wait.job for wait in plan.waiting]
        said: dict[str, Any] = {"waiting": (), "deserved": ()}  # for readers only
        assert msgspec.structs.replace(told, **said) == msgspec.structs.replace(plan, **said)
        unread += sum(UNREAD in wait.reasons for wait in plan.waiting)
    assert unread > 20, "most of those that wait are gangs"


def test_the_same_inputs_give_the_same_bytes() -> None:
    jobs = some_jobs()
    first, again = (msgspec.json.encode(play(DEFAULT, SMALL, *jobs)) for _ in range(2))
    assert first == again
    assert 23 == len(msgspec.json.decode(first, type=Run).jobs)
