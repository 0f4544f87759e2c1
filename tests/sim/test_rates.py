"""The model `rates`: small cases computed by hand, learning, packing, and Pollux's workloads where they are."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest
from bench import policies
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.shared import SHARED, needs

from maar.registry import ALGORITHMS, catalog
from maar.sim.faults import Chance, Faults
from maar.sim.papers.applications import Rates, read_rates
from maar.sim.papers.packing import Packing
from maar.sim.papers.rates import TrueSpeeds
from maar.sim.pool import simulate
from maar.sim.result import Run
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.formats import read_trace
from maar.sim.traces.problems import TraceError
from maar.sim.traces.source import Source

POLLUX = SHARED / "traces/pollux"

TABLE = """application,epoch,progress_from,progress_to,gpus_1,gpus_2,gpus_4,gpus_8
slow,0,0,100,1,1.5,2,1
slow,1,100,1000,1,2,4,8
tiny,0,0,50,5,,,
"""
WORKLOAD = "name,time,application,num_replicas,batch_size\na,30,slow,2,64\nb,70,tiny,1,32\n"


def rates(text: str = TABLE) -> Rates:
    return read_rates(Source("rates.csv", text.encode()))


def trace(text: str = WORKLOAD) -> Trace:
    return read_trace(Source("workload.csv", text.encode()))


RATED = Setting(2, 4, restart=30.0, model="rates", rates=rates(), interval=60.0)


def play(policy: str, setting: Setting = RATED, text: str = WORKLOAD) -> Run:
    return simulate(trace(text), catalog().algorithms[policy], setting)


def ends(run: Run) -> dict[str, float]:
    return {job.name: job.end for job in run.jobs}


def test_a_workload_of_pollux() -> None:
    read = trace()
    assert TraceJob("a", 30.0, 0.0, 2, workers=2, min=1, max=2, model="slow") == read.jobs[0]
    assert ("the trace has no durations: it runs with the model `rates` only",) == read.notes


def test_progress_follows_the_epoch_and_the_size() -> None:
    # a is seen at 60, starts at 90, needs 100 / 1.5 s and 900 / 2 s; b is seen at 120 and runs from 150 for 10 s.
    assert {"a": pytest.approx(90 + 100 / 1.5 + 450), "b": 160.0} == ends(play("tiresias"))


def test_without_an_interval_every_event_decides() -> None:
    run = play("tiresias", msgspec.structs.replace(RATED, interval=0.0, restart=0.0))
    assert {"a": pytest.approx(30 + 100 / 1.5 + 450), "b": 80.0} == ends(run)


def test_an_interval_also_holds_for_the_default_model() -> None:
    jobs = (TraceJob("a", 10, 100, 4, workers=4, min=4, max=4), TraceJob("b", 20, 30, 4, workers=4, min=4, max=4))
    run = simulate(Trace(jobs), catalog().algorithms["fifo"], Setting(1, 4, restart=0.0, interval=60.0))
    assert {"a": 160.0, "b": 210.0} == ends(run), "b waits for the decision at 180"
    assert 3 == run.decisions, "at 60, 120 and 180; at 240 no job is left"


def test_a_size_between_two_of_the_table_is_between_their_rates() -> None:
    table = rates().applications["slow"].table()
    assert [0, 1, 1.5, 1.75, 2, 1.75, 1.5, 1.25, 1] == table[0].tolist()
    assert (1, 1) == (rates().applications["tiny"].sizes[0], rates().applications["tiny"].sizes[-1])


def test_price_takes_parts_of_a_node_or_whole_nodes() -> None:
    run = play("price", text="name,time,application,num_replicas\na,0,slow,1\nb,0,slow,1\nc,0,slow,1\n")
    assert {size for job in run.jobs for _, size in job.sizes} <= {0, 1, 2, 4, 8}
    assert 3 == len(run.jobs)


def test_lengths_may_be_hidden() -> None:
    """By length, b goes first. Without lengths all are equal, and a was submitted first."""
    text = "name,time,application,num_replicas\na,0,slow,1\nb,0,tiny,1\n"
    one = msgspec.structs.replace(RATED, nodes=1, gpus_per_node=1)
    assert 40.0 == ends(play("srjf", one, text))["b"]
    assert 40.0 < ends(play("srjf", msgspec.structs.replace(one, lengths="unknown"), text))["b"]
    default = Trace((TraceJob("a", 0, 100, 1), TraceJob("b", 0, 10, 1)))
    for known, end in ((True, 10.0), (False, 110.0)):
        setting = Setting(1, 1, restart=0.0, lengths="known" if known else "unknown")
        assert end == ends(simulate(default, catalog().algorithms["srjf"], setting))["b"]


def test_speeds_are_learnt_from_the_jobs_that_run() -> None:
    speeds = TrueSpeeds(rates().applications["slow"], known=False)
    assert (list(range(9)), 0.0, 0) == (list(speeds.belief(0)[0]), *speeds.belief(0)[1:])
    assert (0, 90.0) == speeds.run(0, 0.0, 1, 90.0)
    assert (1.0, 1) == speeds.belief(0)[1:], "one point: linear"
    assert (1, 120.0) == speeds.run(0, 85.0, 2, 20.0)
    values, base, largest = speeds.belief(0)
    assert (1.5, 1.0, 2) == (values[2], base, largest)
    assert 2.0 == speeds.belief(1)[0][2], "in the second epoch the rate on two GPUs was 2"
    values, base, largest = TrueSpeeds(rates().applications["slow"], known=True).belief(1)
    assert [1.0, 2.0, 4.0, 8.0] == pytest.approx([values[n] for n in (1, 2, 4, 8)])
    assert [1.0, 8] == pytest.approx([base, largest])


def test_old_rates_do_not_count_where_there_are_recent_ones() -> None:
    text = TABLE.splitlines()[0] + "\n" + "".join(f"x,{e},{e},{e + 1},{e + 1},{e + 2},{e + 4},1\n" for e in range(40))
    speeds = TrueSpeeds(rates(text).applications["x"], known=False)
    speeds.run(0, 0.0, 8, 1.0)
    assert 8 == speeds.belief(39)[2], "nothing else is known"
    speeds._shown = {8: {0: 1.0}, 2: {35: 37.0}}
    speeds._beliefs.clear()
    assert 2 == speeds.belief(39)[2]


def test_learnt_speeds_reach_what_true_ones_do() -> None:
    """In the second half of the run jobs of the application are known."""
    text = "name,time,application,num_replicas\n" + "".join(f"j{i:02},{i * 400},slow,1\n" for i in range(12))
    true, learnt = (play("price", msgspec.structs.replace(RATED, speeds_known=k), text) for k in (True, False))
    assert 12 == len(learnt.jobs)
    assert learnt.summary.avg_jct < 1.25 * true.summary.avg_jct
    assert {1} == {job.sizes[0][1] for job in learnt.jobs[:1]}, "the first job starts small"


@pytest.mark.parametrize("policy", [algorithm.name for algorithm in ALGORITHMS])
def test_every_policy_ends_every_job(policy: str) -> None:
    kinds = ("tiny", "slow", "slow")
    lines = [f"j{i},{i * 37},{kinds[i % 3]},{i % 7 + 1}" for i in range(20)]
    text = "\n".join(("name,time,application,num_replicas", *lines))
    for setting in (RATED, msgspec.structs.replace(RATED, lengths="unknown", speeds_known=False, interval=0.0)):
        run = play(policy, setting, text)
        assert 20 == len(run.jobs)
        assert max(sample.gpus for sample in run.samples) <= 8


# -- nodes


@settings(max_examples=200)
@given(
    st.lists(st.dictionaries(st.integers(0, 9), st.integers(0, 12), max_size=8), max_size=6),
    st.integers(1, 4),
    st.sampled_from([1, 2, 4, 8]),
)
def test_safety_no_node_is_overbooked_and_no_size_invented(steps: list[dict[int, int]], nodes: int, each: int) -> None:
    packing = Packing(nodes, each)
    now: dict[int, int] = {}
    for wanted in steps:
        changed = {job: size for job, size in wanted.items() if size != now.get(job, 0)}
        before = {job: list(parts) for job, parts in packing._parts.items() if job not in changed}
        reached, moved = packing.settle(changed, dict.fromkeys(changed, 1))
        assert all(0 <= reached[job] <= size for job, size in changed.items())
        now = {job: size for job, size in (now | reached).items() if size}
        assert now == {job: sum(count for _, count in parts) for job, parts in packing._parts.items()}
        used = [0] * nodes
        for parts in packing._parts.values():
            assert sum(count < each for _, count in parts) <= 1, "whole nodes, and the rest inside one"
            for node, count in parts:
                used[node] += count
        assert [each - count for count in used] == packing._free
        assert min(packing._free) >= 0
        assert {job for job, parts in before.items() if packing._parts[job] != parts} == moved


def test_liveness_powers_of_two_and_whole_nodes_always_fit() -> None:
    packing = Packing(3, 4)
    least = dict.fromkeys(range(9), 1)
    assert ({0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 4}, set()) == packing.settle({0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 4}, least)
    packing.settle({5: 0, 1: 0, 2: 0}, least)
    reached, moved = packing.settle({6: 4, 7: 2}, least)
    assert {6: 4, 7: 2} == reached
    assert 1 >= len(moved)


# -- what is wrong is said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("application,epoch\n", "rates.csv:1: missing columns: progress_from, progress_to; got application, epoch"),
        (TABLE.splitlines()[0], "rates.csv: contains no rates"),
        (TABLE.replace("slow,1,", "slow,2,"), "rates.csv:3: epoch: expected 1, the next epoch of `slow`, got `2`"),
        (TABLE.replace("1,100,1000", "1,90,1000"), "progress_from: expected the progress at the end of the epoch befo"),
        (
            TABLE.replace("0,0,50", "0,0,0"),
            "rates.csv:4: progress_to: expected more than `progress_from` (0), got `0.0`",
        ),
        (TABLE.replace("0,0,50,5", "0,0,50,fast"), "rates.csv:4: gpus_1: expected a number of at least 0, got `fast`"),
        (
            TABLE.replace("0,0,50,5", "0,0,50,0"),
            "rates.csv:4: gpus_1: expected a number above 0, or nothing, got `0.0`",
        ),
        (
            TABLE.replace("0,0,50,5", "0,0,50,"),
            "`tiny`: expected a number of GPUs (`gpus_1`, ...) with a rate in every",
        ),
    ],
)
def test_wrong_rates(text: str, message: str) -> None:
    with pytest.raises(TraceError) as error:
        rates(text)
    assert message in "\n".join(error.value.lines)


def test_what_the_model_cannot_do() -> None:
    with pytest.raises(ValueError, match="needs a table of rates"):
        play("fifo", msgspec.structs.replace(RATED, rates=None))
    with pytest.raises(ValueError, match="does not support failing or draining nodes"):
        play("fifo", msgspec.structs.replace(RATED, faults=Faults(chance=Chance(100.0))))
    with pytest.raises(ValueError, match="job `a`: unknown application `slo`; did you mean `slow`"):
        play("fifo", text=WORKLOAD.replace("slow", "slo"))


# -- Pollux's workloads

PROTOTYPE = {True: (1672, 2446, 1854, 2109), False: (1992, 2906, 2040, 2393)}
"""Mean completion of the prototype in Pollux's simulator with true speeds: lengths known, and unknown."""


@pytest.mark.slow
@needs("traces/pollux")
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_price_is_as_good_as_its_prototype(known: bool) -> None:
    table = read_rates(Source("rates.csv", (POLLUX / "rates.csv").read_bytes()))
    lengths: Literal["known", "unknown"] = "known" if known else "unknown"
    setting = Setting(16, 4, restart=30.0, model="rates", rates=table, interval=60.0, lengths=lengths)
    found = []
    for number in range(1, 5):
        workload = (POLLUX / f"workload-{number}.csv").read_text()
        found.append(simulate(trace(workload), catalog().algorithms["price"], setting).summary.avg_jct)
    assert found == pytest.approx(PROTOTYPE[known], rel=0.05)


@pytest.mark.slow
@pytest.mark.skipif(not POLLUX.is_dir(), reason=f"the published workloads are not here: {POLLUX.name}")
def test_learnt_lengths_are_nearly_as_good_as_known_ones() -> None:
    found = policies.by_lengths(POLLUX)
    assert found["learnt"] <= policies.LENGTHS_LIMIT * found["known"] < found["unknown"]
