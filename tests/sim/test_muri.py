"""The model `muri`: published results to the last digit, and the rules on our own traces."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.sim import reference_muri
from tests.support.shared import SHARED, needs

from maar.registry import catalog
from maar.sim.papers.muri import Nodes, first_end, iteration, overhead
from maar.sim.papers.muri_trace import read
from maar.sim.pool import simulate
from maar.sim.result import Run
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.source import Source

TRACES = SHARED / "traces/muri"

PUBLISHED = {
    ("trace3", "srtf"): (193081.796, 8174135.28),
    ("trace3", "srsf"): (185021.880, 8174135.28),
    ("trace3", "tiresias"): (347213.248, 8174226.28),
    ("trace3_pr", "srtf"): (844394.780, 7261795.828),
    ("trace3_pr", "srsf"): (798057.683, 6907790.403),
    ("trace3_pr", "tiresias"): (2213110.128, 6761641.42),
}


def play(trace: Trace, policy: str, nodes: int = 8, each: int = 8) -> Run:
    return simulate(trace, catalog().algorithms[policy], Setting(nodes, each, model="muri"))


@pytest.mark.slow
@needs("traces/muri")
@pytest.mark.parametrize(("name", "policy"), PUBLISHED)
def test_published_results(name: str, policy: str) -> None:
    file = TRACES / f"{name}.csv"
    summary = play(read(Source(file.name, file.read_bytes())), policy).summary
    assert 992 == summary.jobs
    assert PUBLISHED[name, policy] == (round(summary.avg_jct, 3), round(summary.makespan, 3))


PUBLISHED_SIZES = (1, 1, 1, 2, 4, 8, 16)
ODD_SIZES = (1, 3, 5, 8, 9, 12, 20, 24)


def drawn(
    seed: int, jobs: int, arrivals: float, sizes: tuple[int, ...] = PUBLISHED_SIZES, least: int = 100
) -> list[dict[str, Any]]:
    """Random jobs: whole numbers as in the file, many of them equal, so that there are ties."""
    dice = random.Random(seed)
    submit, rows = 0.0, []
    for number in range(jobs):
        if dice.random() < arrivals:
            submit += dice.choice((1000, 3000, 60_000, 500_000))
        rows.append(
            {
                "name": f"{number:04}",
                "gpus": dice.choice(sizes),
                "submit_ms": submit,
                "left": float(dice.choice((least, 1000, 1000, 5000, 20_000, 50_000))),
                "model": dice.choice(("vgg16", "resnet18", "a2c", "bert", "dqn", "inception")),
                "iteration_ms": float(dice.choice((190, 200, 400, 921, 886.5))),
            }
        )
    return rows


def as_trace(rows: list[dict[str, Any]]) -> Trace:
    header = "job_id,num_gpu,submit_time,iterations,model_name,duration,iteration_time"
    fields = ("name", "gpus", "submit_ms", "left", "model", "left", "iteration_ms")
    lines = [header, *(",".join(str(row[field]) for field in fields) for row in rows)]
    return read(Source("own.csv", "\n".join(lines).encode()))


@pytest.mark.parametrize("policy", ["srtf", "srsf", "tiresias"])
@pytest.mark.parametrize(("seed", "arrivals"), [(1, 0.0), (2, 0.5), (3, 1.0), (4, 1.0)])
def test_every_job_ends_when_the_rules_say(policy: str, seed: int, arrivals: float) -> None:
    rows = drawn(seed, 120, arrivals)
    jobs = [reference_muri.Job(**row) for row in rows]
    if policy == "tiresias":
        expected = reference_muri.tiresias(jobs, 3 * 8)
    else:
        expected = reference_muri.shortest_first(jobs, policy == "srsf", 3, 8)
    run = play(as_trace(rows), policy, nodes=3)
    assert expected == {job.name: job.end for job in run.jobs}


@pytest.mark.parametrize("policy", ["srtf", "srsf", "tiresias"])
@pytest.mark.parametrize(("seed", "arrivals", "nodes", "each"), [(5, 0.0, 3, 8), (6, 0.7, 4, 8), (7, 0.7, 5, 5)])
def test_odd_sizes_and_no_work_too(policy: str, seed: int, arrivals: float, nodes: int, each: int) -> None:
    rows = drawn(seed, 80, arrivals, ODD_SIZES, least=0)
    jobs = [reference_muri.Job(**row) for row in rows]
    if policy == "tiresias":
        expected = reference_muri.tiresias(jobs, nodes * each)
    else:
        expected = reference_muri.shortest_first(jobs, policy == "srsf", nodes, each)
    run = play(as_trace(rows), policy, nodes, each)
    assert expected == {job.name: job.end for job in run.jobs}


def test_who_are_demoted_together_go_in_the_order_in_which_they_came() -> None:
    # On 48 GPUs `a` and `b` (16 each) run, `early` (32) waits, and the later job `late` (16) runs. At 103.1
    # `early` starts. Both reach the limit by 205, when `late` is before `early` in the list. At 300 `new` (16)
    # arrives, and there is room for one of them: `early`, until it reaches the next limit.
    jobs = [("a", 16, 0, 503), ("b", 16, 0, 503), ("early", 32, 0, 9999), ("late", 16, 1000, 9999)]
    rows = [
        {"name": name, "gpus": gpus, "submit_ms": submit, "left": left, "model": "bert", "iteration_ms": 200}
        for name, gpus, submit, left in (*jobs, ("new", 16, 300_000, 9999))
    ]
    run = play(as_trace(rows), "tiresias", nodes=6)
    sizes = {job.name: [(round(time), size) for time, size in job.sizes[:2]] for job in run.jobs}
    assert {"early": [(103, 1), (103 + 225, 0)], "late": [(1, 1), (300, 0)]} == {
        name: sizes[name] for name in ("early", "late")
    }


def test_ends_that_are_equal_are_one_at_the_time_of_the_first_in_the_list() -> None:
    ends = np.array([2e6, 1e6 + 0.0015, 1e6 + 0.0005, 1e6, 1e6 + 0.0016])
    at, who = first_end(ends, 1e-9)
    assert (1e6 + 0.0005, [2, 3]) == (at, who.tolist())
    assert (1e6, [3]) == ((exact := first_end(ends, 0.0))[0], exact[1].tolist())


@pytest.mark.parametrize("policy", ["srtf", "srsf"])
@pytest.mark.parametrize(("comes", "ends"), [(1014999.9995, 1025.0), (1015000, 1015.0), (1015000.0005, 1015.0)])
def test_an_arrival_that_is_nearly_an_end_is_another_event(policy: str, comes: float, ends: float) -> None:
    # `a` would end at 1015: an arrival half a microsecond before costs it another 10 s, as in the published results.
    a = {"name": "a", "gpus": 1, "submit_ms": 0, "left": 1000, "model": "bert", "iteration_ms": 1000}
    run = play(as_trace([a, {**a, "name": "b", "submit_ms": comes}]), policy)
    assert ends == pytest.approx(run.jobs[0].end, abs=1e-5)


def test_nodes_pass_over_what_does_not_fit() -> None:
    # 12 GPUs take an idle node and half of another. Then 8 do not fit, 4 fit, and 16 never fit.
    nodes = Nodes(2, 8)
    served, left = nodes.serve(np.array([12, 8, 16, 4, 1]))
    assert ([0, 3], 0) == (served.tolist(), left)


def test_a_job_larger_than_the_cluster_is_left() -> None:
    rows = [*drawn(1, 3, 0.0), {**drawn(1, 1, 0.0)[0], "name": "9999", "gpus": 32}]
    run = play(as_trace(rows), "srtf", nodes=2)
    assert ("9999",) == run.unfinished
    assert 3 == len(run.jobs)


@pytest.mark.parametrize("policy", ["srtf", "srsf", "tiresias"])
def test_iterations_that_take_no_time_are_no_work(policy: str) -> None:
    rows = [{**drawn(1, 1, 0.0)[0], "name": name, "iteration_ms": ms} for name, ms in (("a", 0.0), ("b", 200.0))]
    ends = {job.name: job.end for job in play(as_trace(rows), policy).jobs}
    assert {"a": 0.0, "b": rows[1]["left"] * 200 * 1.015 / 1000} == pytest.approx(ends)


def test_what_a_start_costs() -> None:
    assert [7, 7, 8, 8, 10, 46, 10] == [
        overhead("vgg16", 1),
        overhead("vgg16", 2),
        overhead("vgg16", 3),
        overhead("vgg16", 4),
        overhead("gpt2", 64),
        overhead("a2c", 64),
        overhead("something", 1),
    ]


def test_an_iteration_takes_as_long_as_in_the_file() -> None:
    for ms in (886, 921, 190, 0.7, 1234.567):
        job = TraceJob("a", 0.0, 1.0, 1, iterations=1.0, iteration_time=ms / 1000)
        assert ms * 1.015 / 1000 == iteration(job)
