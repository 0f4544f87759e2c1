"""Pool depth: small cases computed by hand, and properties of every policy on any trace."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maar.registry import ALGORITHMS, catalog
from maar.sim.faults import Chance, FaultError, Faults, NodeEvent, What, parse_chance
from maar.sim.faults import read as read_faults
from maar.sim.pool import PoolPlay, simulate
from maar.sim.result import Run
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob

ONE = Setting(1, 4, restart=0.0)


def rigid(name: str, submit: float, duration: float, gpus: int, **fields: object) -> TraceJob:
    job = TraceJob(name, submit, duration, gpus, workers=gpus, min=gpus, max=gpus)
    return msgspec.structs.replace(job, **fields)


def elastic(name: str, submit: float, duration: float, least: int, workers: int, most: int) -> TraceJob:
    return TraceJob(name, submit, duration, workers, workers=workers, min=least, max=most)


def play(policy: str, setting: Setting, *jobs: TraceJob) -> Run:
    return simulate(Trace(jobs), catalog().algorithms[policy], setting)


def ends(run: Run) -> dict[str, float]:
    return {job.name: job.end for job in run.jobs}


def test_fifo_passes_over_what_does_not_fit() -> None:
    # b (4 GPUs) waits for a. c (1 GPU) runs beside a, and stops when b starts at 100.
    run = play("fifo", ONE, rigid("a", 0, 100, 3), rigid("b", 10, 50, 4), rigid("c", 20, 200, 1))
    assert {"a": 100.0, "b": 150.0, "c": 270.0} == ends(run)
    c = run.jobs[2]
    assert (20.0, 50.0, 200.0, 1) == (c.started, c.waited, c.ran, c.restarts)
    assert ((20.0, 1), (100.0, 0), (150.0, 1), (270.0, 0)) == c.sizes
    assert 200.0 == c.gpu_seconds


def test_numbers_of_a_run() -> None:
    run = play("fifo", ONE, rigid("a", 0, 100, 4), rigid("b", 0, 300, 4))
    assert {"a": 100.0, "b": 400.0} == ends(run)
    summary = run.summary
    assert (250.0, 250.0, 397.0, 400.0, 50.0, 1.0, 0) == (
        summary.avg_jct,
        summary.p50_jct,
        round(summary.p99_jct, 9),
        summary.makespan,
        summary.avg_wait,
        summary.gpu_utilisation,
        summary.restarts,
    )
    # a: two jobs were present all the time, so its share is half of the GPUs, on which it would take 200 s.
    # b: two jobs for 100 s and one for 300 s, 1.25 on average; on its share it would take 375 s.
    assert [0.5, 400 / 375] == [job.ratio for job in run.jobs]


def test_srtf_stops_the_longer_and_a_start_again_costs() -> None:
    setting = msgspec.structs.replace(ONE, restart=7.0)
    run = play("srtf", setting, rigid("long", 0, 100, 4), rigid("short", 10, 20, 4))
    assert {"long": 127.0, "short": 30.0} == ends(run)
    assert 1 == run.summary.restarts


def test_elastic_jobs_grow_into_what_is_free_and_shrink_for_others() -> None:
    # a: 400 worker-seconds. Alone on 4 until 50 (200 done), then shares with b: 2 and 2.
    # b: 100 worker-seconds, 50 s on 2, ends at 100. a has 100 left then, on 4: ends at 125.
    run = play("elastic-fifo", ONE, elastic("a", 0, 200, 1, 2, 4), elastic("b", 50, 50, 1, 2, 4))
    assert {"a": 125.0, "b": 100.0} == ends(run)
    assert ((0.0, 4), (50.0, 2), (100.0, 4), (125.0, 0)) == run.jobs[0].sizes
    assert (2, 0) == (run.jobs[0].restarts, run.jobs[1].restarts)


def test_growth_that_does_not_pay_for_its_restart_is_not_made() -> None:
    setting = msgspec.structs.replace(ONE, restart=30.0)
    run = play("elastic-fifo", setting, rigid("a", 0, 95, 2), elastic("b", 0, 100, 2, 2, 4))
    # When a ends, b has 10 worker-seconds left: growth would not pay for a pause of 30 s.
    assert {"a": 95.0, "b": 100.0} == ends(run)
    assert 0 == run.summary.restarts


def test_speedups_count() -> None:
    job = msgspec.structs.replace(elastic("a", 0, 100, 1, 1, 4), speedup=((1, 1.0), (4, 2.0)))
    assert {"a": 50.0} == ends(play("elastic-fifo", ONE, job))


def test_tiresias_demotes_when_time_alone_says_so() -> None:
    # a passes 3600 GPU seconds at 900; b arrived later and waits until then, in the first queue.
    run = play("tiresias", ONE, rigid("a", 0, 2000, 4), rigid("b", 100, 300, 4))
    sizes = {job.name: [(round(time), size) for time, size in job.sizes] for job in run.jobs}
    assert {"a": [(0, 4), (900, 0), (1200, 4), (2300, 0)], "b": [(900, 4), (1200, 0)]} == sizes


def test_a_job_that_never_fits_is_left_and_named() -> None:
    run = play("fifo", ONE, rigid("a", 0, 10, 5), rigid("b", 0, 10, 4))
    assert (("a",), {"b": 10.0}) == (run.unfinished, ends(run))
    assert [1.0] == [job.ratio for job in run.jobs], "it was nobody's company"


def test_no_jobs_give_no_numbers() -> None:
    assert (0, 0.0, 0.0) == ((s := play("fifo", ONE).summary).jobs, s.avg_jct, s.makespan)


def test_a_failing_node_stops_what_lies_there_and_loses_unsaved_work() -> None:
    # a is on node 0, b on node 1. Node 0 fails at 100; a has saved at 60 and loses 40 s: 240 s are left.
    faults = Faults((NodeEvent(100, 0, What.FAIL), NodeEvent(200, 0, What.REPAIR)))
    setting = Setting(2, 4, restart=5.0, checkpoint=60.0, faults=faults)
    run = play("fifo", setting, rigid("a", 0, 300, 4), rigid("b", 0, 300, 4))
    # The policy serves a first, so b stops at 100: a moves to its node, and b waits for the repair.
    assert {"a": 100 + 5 + 240.0, "b": 200 + 5 + 200.0} == ends(run)
    # a had 4 GPUs for 345 s, b for 100 s and 205 s, of 8 GPUs, or 4 while one node was down.
    assert 4 * (345 + 100 + 205) / (8 * 405 - 4 * 100) == pytest.approx(run.gpu_utilisation)


def test_a_drained_node_loses_no_work() -> None:
    faults = Faults((NodeEvent(100, 1, What.DRAIN), NodeEvent(150, 1, What.RETURN)))
    run = play("fifo", Setting(2, 4, restart=0.0, faults=faults), rigid("a", 0, 300, 4), rigid("b", 0, 300, 4))
    assert {"a": 300.0, "b": 350.0} == ends(run)


def test_faults_by_chance_depend_on_the_seed_alone() -> None:
    jobs = [rigid(str(i), i * 100, 3000, 4) for i in range(20)]
    setting = Setting(4, 4, faults=Faults(chance=Chance(5000, 500, 7)))
    first, again = (play("fifo", setting, *jobs) for _ in range(2))
    assert msgspec.json.encode(first) == msgspec.json.encode(again)
    assert 20 == len(first.jobs)
    assert first.summary.restarts > 0
    other = play("fifo", msgspec.structs.replace(setting, faults=Faults(chance=Chance(5000, 500, 8))), *jobs)
    assert ends(first) != ends(other)


def test_faults_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "faults.csv"
    file.write_text("time,node,event\n10,1,fail\n20.5,1,repair\n")
    expected = Faults((NodeEvent(10, 1, What.FAIL), NodeEvent(20.5, 1, What.REPAIR)))
    assert expected == read_faults(file, 2)
    file.write_bytes(b"\xef\xbb\xbftime, node, event\r\n10, 1, fail\r\n\r\n20.5, 1, repair\r\n")
    assert expected == read_faults(file, 2), "as spreadsheets write it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("when,node,event\n", "line 1: expected the columns `time,node,event`"),
        ("time,node,event\nsoon,1,fail\n", "line 2, column `time`: expected seconds, got `soon`"),
        ("time,node,event\n-1,1,fail\n", "line 2, column `time`: expected seconds of at least 0, got `-1`"),
        ("time,node,event\n1,2,fail\n", "line 2, column `node`: expected a number from 0 to 1, got `2`"),
        ("time,node,event\n1,0,burn\n", "column `event`: expected one of fail, repair, drain, return, got `burn`"),
        ("time,node,event\n1,0\n", "line 2: expected 3 columns, got 2"),
        (f"time,node,event\n{'1' * 200_000},0,fail\n", "field larger than field limit"),
    ],
)
def test_a_bad_file_of_faults_says_where(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "faults.csv"
    file.write_text(text)
    with pytest.raises(FaultError) as caught:
        read_faults(file, 2)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{file}: ")


def test_chance_from_an_option() -> None:
    assert Chance(86400, 60, 3) == parse_chance("86400,60,3")
    assert Chance(86400) == parse_chance("86400")
    for text in ("", "x", "0", "1,2,3,4", "1,-1", "inf"):
        with pytest.raises(FaultError):
            parse_chance(text)


TRACES = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.integers(1, 500),
        st.sampled_from([(1, 1, 1), (2, 2, 2), (4, 4, 4), (1, 2, 4), (2, 2, 8), (8, 8, 8)]),
        st.sampled_from([1, 2]),
        st.integers(0, 1),
        st.sampled_from([(), ((1, 1.0), (4, 2.5))]),
    ),
    min_size=1,
    max_size=12,
)


@given(TRACES, st.sampled_from([0.0, 20.0]), st.booleans(), st.sampled_from([kind.name for kind in ALGORITHMS]))
@settings(max_examples=150)
def test_safety_and_liveness(drawn: list, restart: float, fails: bool, policy: str) -> None:  # type: ignore[type-arg]
    """GPUs are never over-committed, and every job that fits ends after exactly its work."""
    jobs = [
        TraceJob(
            f"job-{i}", float(submit), float(duration), workers * each, workers, each, least, most, "default", priority
        )
        for i, (submit, duration, (least, workers, most), each, priority, _) in enumerate(drawn)
    ]
    jobs = [msgspec.structs.replace(job, speedup=row[5]) for job, row in zip(jobs, drawn, strict=True)]
    faults = Faults((NodeEvent(50, 0, What.FAIL), NodeEvent(150, 0, What.REPAIR), NodeEvent(160, 1, What.DRAIN),
                     NodeEvent(400, 1, What.RETURN))) if fails else Faults()  # fmt: skip
    setting = Setting(2, 4, restart=restart, checkpoint=0.0, faults=faults)
    pool = PoolPlay(Trace(tuple(jobs)), catalog().algorithms[policy], setting)
    now = -math.inf
    while pool.step():
        assert 0 <= pool.ledger.used <= pool.gpus
        assert now <= pool.ledger._moments[-1][0]
        now = pool.ledger._moments[-1][0]
    run = pool.run()
    fit = {job.name for job in jobs if job.min * job.gpus_per_worker <= 8}
    assert fit == {job.name for job in run.jobs}
    by_name = {job.name: job for job in jobs}
    for record in run.jobs:
        job = by_name[record.name]
        done, restarts = work_done(job, record.sizes, restart)
        assert restarts == record.restarts
        assert job.duration * speed(job, job.workers) == pytest.approx(done, rel=1e-9, abs=1e-6)
        assert record.submit <= record.started <= record.end
        assert record.end - record.submit == pytest.approx(record.waited + record.ran)
        assert all(size == 0 or job.min <= size <= job.max for _, size in record.sizes)


def speed(job: TraceJob, workers: int) -> float:
    """Computed by hand: linear, or 1.0 at 1 and 2.5 at 4 with straight lines between and beyond."""
    return 1 + (workers - 1) * 0.5 if job.speedup and workers else float(workers)


def work_done(job: TraceJob, sizes: tuple[tuple[float, int], ...], restart: float) -> tuple[float, int]:
    """The worker-seconds of a job, and its number of restarts."""
    done, restarts = 0.0, 0
    for i, ((since, size), (until, _)) in enumerate(pairwise(sizes)):
        begins_anew = i > 0 and size > 0
        restarts += begins_anew
        done += max(until - since - (restart if begins_anew else 0.0), 0.0) * speed(job, size)
    return done, restarts


@pytest.mark.parametrize("policy", [kind.name for kind in ALGORITHMS])
def test_the_same_inputs_give_the_same_bytes_whatever_the_order_of_jobs(policy: str) -> None:
    jobs = [elastic(f"j{i}", 40.0 * (i // 3), 90.0 + 7 * i, 1, 1 + i % 3, 4) for i in range(25)]
    first, again = (msgspec.json.encode(play(policy, Setting(2, 4), *jobs)) for _ in range(2))
    assert first == again
    turned = {job.name: job for job in play(policy, Setting(2, 4), *jobs[::-1]).jobs}
    assert {job.name: job for job in play(policy, Setting(2, 4), *jobs).jobs} == turned


def test_long_queues_are_the_same_as_short_ones() -> None:
    # More jobs at once than fit on the first desk, which then grows often. fifo of equal jobs is easy to compute.
    run = play("fifo", ONE, *(rigid(f"{i:04}", 0.0, 10.0, 2) for i in range(600)))
    assert {f"{i:04}": 10.0 * (i // 2 + 1) for i in range(600)} == ends(run)
