"""`maar simulate`: options, output and errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from maar.cli.main import main
from maar.config.file import PROFILES, profile_text
from maar.registry import catalog

TRACE = "timestamp,duration,num_gpus\n0,100,4\n10,50,4\n20,500,4\n"
"""On 8 GPUs the third job waits until 60."""
CONTRACT = {
    *("policy", "jobs", "avg_jct", "p50_jct", "p99_jct", "makespan", "avg_wait", "gpu_utilisation", "restarts"),
}


@pytest.fixture
def trace(tmp_path: Path) -> str:
    file = tmp_path / "trace.csv"
    file.write_text(TRACE)
    return str(file)


def maar(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments], input=given)


def runs(*arguments: str) -> list[dict[str, object]]:
    done = maar(*arguments, "-o", "json")
    assert (0, "") == (done.exit_code, done.stderr)
    found: list[dict[str, object]] = json.loads(done.stdout)["runs"]
    return found


ON_ONE = ("--nodes", "1", "--gpus-per-node", "8")


def test_json_has_what_the_contract_says(trace: str) -> None:
    (run,) = runs(trace, "--policy", "fifo", *ON_ONE)
    assert run.keys() >= CONTRACT
    expected = {"policy": "fifo", "jobs": 3, "avg_jct": (100 + 50 + 540) / 3, "p50_jct": 100.0, "makespan": 560.0}
    assert expected == {key: run[key] for key in expected}
    assert (40 / 3, 0) == (run["avg_wait"], run["restarts"])
    assert 4 * 650 / (8 * 560) == run["gpu_utilisation"]


def test_policies_are_compared_in_processes_and_give_the_same_bytes(trace: str) -> None:
    options = (trace, "--policy", "srtf,fifo,srtf", *ON_ONE, "-o", "json")
    alone, together = maar(*options, "--processes", "1"), maar(*options, "--processes", "2")
    assert ["srtf", "fifo"] == [run["policy"] for run in json.loads(alone.stdout)["runs"]]
    assert alone.stdout == together.stdout


def test_the_table(trace: str) -> None:
    shown = maar(trace, *ON_ONE, "--processes", "1")
    assert (0, "") == (shown.exit_code, shown.stderr)
    lines = shown.stdout.splitlines()
    assert f"{trace}: 3 jobs on 8 GPUs" == lines[0]
    assert ["policy", "mean", "median", "p95", "p99", "waited", "makespan"] == lines[2].split()[:7]
    assert ["fifo", "srtf", "tiresias", "elastic-fifo"] == [line.split()[0] for line in lines[4:8]]
    assert "3.83 min" in lines[4]


def test_a_trace_from_standard_input() -> None:
    done = maar("-", "--policy", "fifo", "-o", "json", given=TRACE)
    assert (0, 3) == (done.exit_code, json.loads(done.stdout)["runs"][0]["jobs"])


def test_what_became_of_each_job(trace: str, tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    assert 0 == maar(trace, "--policy", "fifo,srtf", *ON_ONE, "--processes", "1", "--jobs", str(file)).exit_code
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert ["fifo"] * 3 + ["srtf"] * 3 == [row["policy"] for row in rows]
    assert ["100.0", "60.0", "560.0"] == [row["end"] for row in rows[:3]]
    lines = tmp_path / "jobs.jsonl"
    assert 0 == maar(trace, "--policy", "fifo", *ON_ONE, "--jobs", str(lines)).exit_code
    last = json.loads(lines.read_text().splitlines()[-1])
    assert ("fifo", [[60.0, 4], [560.0, 0]]) == (last["policy"], last["sizes"])


def test_the_report_is_written(trace: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = maar(trace, "--policy", "fifo", "--report", str(page))
    assert (0, f"written: {page}\n") == (done.exit_code, done.stderr)
    assert page.read_text().startswith("<!doctype html>")


def test_a_configuration_plays_a_whole_cluster(trace: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text('actions: "allocate"\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n')
    found = runs(trace, "--config", str(file), "--policy", "fifo", *ON_ONE, "--processes", "1")
    assert ["fifo", str(file)] == [run["policy"] for run in found]
    assert found[0]["avg_jct"] == found[1]["avg_jct"]


def test_every_profile_plays_a_whole_cluster(trace: str, tmp_path: Path) -> None:
    for profile in PROFILES:
        file = tmp_path / f"{profile}.yaml"
        file.write_text(profile_text(profile))
        (run,) = runs(trace, "--config", str(file), *ON_ONE)
        assert (3, 560) == (run["jobs"], run["makespan"]), profile


def test_a_lenient_simulation_skips_what_is_unknown(trace: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text('actions: "allocate"\nlogLevel: 3\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n')
    options = (trace, "--config", str(file), *ON_ONE, "-o", "json")
    assert 2 == maar(*options).exit_code
    done = maar(*options, "--lenient")
    assert (0, 3) == (done.exit_code, json.loads(done.stdout)["runs"][0]["jobs"])
    assert done.stderr.startswith(f"warning: {file}: unknown key `logLevel` is skipped: ")


def test_a_policy_at_cluster_depth(trace: str) -> None:
    (run,) = runs(trace, "--policy", "fifo", "--depth", "cluster", *ON_ONE)
    # Sizes change at most every 30 s, and changed at 0: the second job starts at 30, the third when it ends.
    assert ("fifo", 3) == (run["policy"], run["jobs"])
    assert run["avg_jct"] == (100 + (30 - 10 + 50) + (80 - 20 + 500)) / 3


def test_nodes_that_fail(trace: str, tmp_path: Path) -> None:
    file = tmp_path / "faults.csv"
    file.write_text("time,node,event\n30,0,fail\n40,0,repair\n")
    options = (trace, "--policy", "fifo", *ON_ONE, "--restart", "0", "--checkpoint", "0")
    (run,) = runs(*options, "--faults", str(file))
    assert (2, (110 + 60 + 550) / 3) == (run["restarts"], run["avg_jct"])
    assert 1 == len(runs(*options, "--fail", "1000,10,5"))


def test_jobs_that_do_not_fit_are_named(trace: str) -> None:
    done = maar(trace, "--policy", "fifo", "--nodes", "1", "--gpus-per-node", "2", "-o", "json")
    assert 0 == done.exit_code
    assert "warning: fifo: 3 jobs could not run on 2 GPUs, not included in the results: " in done.stderr
    assert 0 == json.loads(done.stdout)["runs"][0]["jobs"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--policy", "tiresia"), "unknown algorithm `tiresia`; did you mean `tiresias`?"),
        (("--model", "mury"), "unknown model `mury`; did you mean `muri`? known: default, muri, rates"),
        (("--format", "phily"), "unknown format `phily`; did you mean `philly`?"),
        (("--config", "no.yaml"), "no.yaml: no such file"),
        (("--config", "no.yaml", "--depth", "pool"), "--depth pool and --config: a configuration needs depth cluster"),
        (("--model", "muri", "--depth", "cluster"), "--model muri: only supported with --depth pool"),
        (("--model", "muri", "--fail", "100"), "--model muri: does not support failing or draining nodes"),
        (("--model", "rates"), "--model rates: needs --rates FILE"),
        (("--model", "rates", "--rates", "no.csv"), "no.csv: no such file"),
        (("--model", "rates", "--rates", "no.csv", "--depth", "cluster"), "--model rates: only supported with --depth"),
        (("--rates", "no.csv"), "--rates: only supported with --model rates"),
        (("--speeds", "learnt"), "--speeds learnt: only supported with --model rates"),
        (("--interval", "60", "--depth", "cluster"), "--interval: only supported with --depth pool"),
        (("--interval", "60", "--model", "muri"), "--interval: only supported with --depth pool"),
        (("--lengths", "maybe"), "'maybe' is not one of 'known', 'unknown'"),
        (("--fail", "often"), "expected seconds above 0, `BETWEEN[,REPAIR[,SEED]]`, got `often`"),
        (("--fail", "100", "--faults", "x.csv"), "--faults and --fail: expected one of them, got both"),
        (("--faults", "no.csv"), "no.csv: No such file or directory"),
        (("--nodes", "0"), "0 is not in the range 1<=x<=1000000"),
        (("--restart", "nan"), "'--restart': expected a number, got `nan`"),
        (("--patience", "inf"), "'--patience': expected a number, got `inf`"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_printed(trace: str, options: tuple[str, ...], message: str) -> None:
    done = maar(trace, "--policy", "fifo", *options)
    assert (2, "") == (done.exit_code, done.stdout)
    assert message in done.stderr


def test_a_workload_with_rates(tmp_path: Path) -> None:
    """The command that compares with Pollux, on small data."""
    workload, table = tmp_path / "workload-1.csv", tmp_path / "rates.csv"
    workload.write_text("name,time,application,num_replicas,batch_size\na,0,x,2,64\nb,0,x,1,64\n")
    head = "application,epoch,progress_from,progress_to"
    table.write_text(f"{head},gpus_1,gpus_2,gpus_4\nx,0,0,600,1,1.9,3\n")
    on = ("--nodes", "16", "--gpus-per-node", "4", "--restart", "30", "--interval", "60")
    options = (str(workload), "--format", "pollux", "--model", "rates", "--rates", str(table), "--policy", "price", *on)
    for lengths in ("known", "unknown"):
        (run,) = runs(*options, "--lengths", lengths, "--speeds", "true")
        assert ({"policy": "price", "jobs": 2}, 30 + 200) == ({k: run[k] for k in ("policy", "jobs")}, run["avg_jct"])
        (run,) = runs(*options, "--lengths", lengths, "--speeds", "learnt")
        assert (2, True) == (run["jobs"], 230 < float(str(run["avg_jct"])) < 700)
    done = maar(str(workload), "--policy", "fifo")
    assert (2, "") == (done.exit_code, done.stdout)
    assert "the trace has no durations: it runs with the model `rates` only; add --model rates" in done.stderr
    table.write_text(f"{head},gpus_1\ny,0,0,600,1\n")
    assert "job `a`: unknown application `x`; " in maar(*options).stderr


def test_an_output_that_cannot_be_written(trace: str) -> None:
    done = maar(trace, "--policy", "fifo", "--jobs", "/nowhere/jobs.csv")
    said = "/nowhere/jobs.csv: cannot be written: No such file or directory\n"
    assert (3, "", said) == (done.exit_code, done.stdout, done.stderr)


@pytest.mark.parametrize("command", ["allocate", "simulate"])
def test_help_lists_all_algorithms(command: str) -> None:
    shown = CliRunner().invoke(main, [command, "--help"]).stdout
    listed = shown.partition("Algorithms:")[2]
    assert set(catalog().algorithms) <= set(listed.split())


def test_policies_differ_on_a_generated_trace(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    assert 0 == CliRunner().invoke(main, ["trace", "generate", "-O", str(file)]).exit_code
    fifo, *others = runs(str(file), "--processes", "1")
    mean = {str(run["policy"]): float(str(run["avg_jct"])) for run in (fifo, *others)}
    assert ["fifo", "srtf", "tiresias", "elastic-fifo"] == list(mean)
    assert all(mean[str(run["policy"])] < 0.9 * mean["fifo"] for run in others)
    assert mean["fifo"] < 24 * 3600, "the queue does not only grow"


def test_a_trace_that_is_not_there() -> None:
    done = maar("nothing.csv")
    assert (2, "", "nothing.csv: no such file\n") == (done.exit_code, done.stdout, done.stderr)
