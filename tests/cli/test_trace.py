"""`maar trace`: options, output and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from maar.cli.main import main
from maar.cli.support.trace_file import load_trace

PHILLY = "timestamp,duration,num_gpus\n0,3600,4\n3600,7200,8\n"


def maar(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["trace", *arguments], input=given)


def test_a_trace_is_made_on_the_screen_or_in_a_file(tmp_path: Path) -> None:
    options = ("generate", "--seed", "3", "--jobs", "20", "--elastic", "0.5", "--queues", "a:2,b:1", "--night", "0.5")
    shown = maar(*options)
    assert (0, "") == (shown.exit_code, shown.stderr)
    file = tmp_path / "t.csv"
    assert "" == maar(*options, "-O", str(file)).stdout
    assert shown.stdout == file.read_text()
    assert shown.stdout.startswith('# maar trace generate: {"seed":3,"jobs":20,')
    lines = tmp_path / "t.jsonl"
    maar(*options, "-O", str(lines))
    assert load_trace(str(file)).jobs == load_trace(str(lines)).jobs
    assert lines.read_text() == maar(*options, "--as", "jsonl").stdout
    assert 20 == len(load_trace(str(file)).jobs)


def test_all_options_reach_the_trace(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    done = maar(
        *("generate", "--jobs", "300", "--rate", "60", "--sizes", "4:1,8:1", "--gpus-per-worker", "4"),
        *("--duration", "uniform:low=1m,high=2m", "--elastic", "1", "--stretch", "3", "--models", "scales-badly:1"),
        *("--queues", "only:1", "--priorities", "-7:1", "-O", str(file)),
    )
    assert (0, "") == (done.exit_code, done.output)
    jobs = load_trace(str(file)).jobs
    assert {(4, 1, 1, 3), (8, 2, 1, 6)} == {(job.gpus, job.workers, job.min, job.max) for job in jobs}
    assert {("only", -7, "scales-badly")} == {(job.queue, job.priority, job.model) for job in jobs}
    assert all(60 <= job.duration <= 120 for job in jobs)
    assert 60 * 300 == pytest.approx(jobs[-1].submit, rel=0.2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ("--duration", "weibull:k=1"),
            "'--duration': expected a distribution such as `lognormal:median=1h,sigma=1.5`, `exponential",
        ),
        (("--duration", "lognormal:sigma=1"), "'--duration': expected a distribution such as"),
        (("--duration", "exponential:mean=0"), "'--duration': expected a distribution such as"),
        (("--duration", "uniform:low=2h,high=1h"), "'--duration': expected a distribution such as"),
        (("--sizes", "1,2"), "'--sizes': expected a list such as `1:3,8:1`, got `1,2`"),
        (("--sizes", "big:1"), "'--sizes': expected a list such as `1:3,8:1`, got `big:1`"),
        (("--sizes", "0:1"), "--sizes: expected sizes of at least 1 GPU, got `0`"),
        (("--queues", "a:-1"), "'--queues': expected a list such as `research:3,production:1`, got `a:-1`"),
        (("--queues", "a:1,a:2"), "'--queues': expected a list such as"),
        (("--models", "resnet:1"), "--models: unknown class `resnet`; known: scales-well, scales-fairly, scales-badly"),
        (("--rate", "1", "--load", "1"), "--rate and --load: expected one of them, got both"),
        (("--night", "2"), "'--night': 2.0 is not in the range"),
        (("--rate", "nan"), "'--rate': expected a number, got `nan`"),
        (("--load", "inf"), "'--load': expected a number, got `inf`"),
        (("-O", "no/such/folder/t.csv"), "no/such/folder/t.csv: cannot be written: No such file or directory"),
    ],
)
def test_a_bad_option_is_named(options: tuple[str, ...], expected: str) -> None:
    done = maar("generate", "--jobs", "3", *options)
    assert (True, "") == (done.exit_code in (2, 3), done.stdout)
    assert expected in done.stderr


def test_a_trace_is_described_for_people(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(PHILLY)
    done = maar("describe", str(file), "--gpus", "4")
    assert (0, "") == (done.exit_code, done.stderr)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert str(file) == lines[0]
    assert "jobs 2, 2 per hour, 1 in the busiest hour" in lines
    assert "durations mean 1.5 h, shortest 1 h, median 1.5 h, p90 1.9 h, p99 1.99 h, longest 2 h" in lines
    assert "GPU hours 20" in lines
    assert "on 4 GPUs a load of 500 %; 1 job is too large" in lines
    assert "8 1 ███████████████ 16 ████████████████████████" in lines


def test_a_trace_is_described_for_scripts_from_standard_input() -> None:
    done = maar("describe", "-", "-o", "json", given=PHILLY)
    found = json.loads(done.stdout)
    assert ("standard input", 2, 20.0, None) == (found["source"], found["jobs"], found["gpu_hours"], found["gpus"])
    assert [{"gpus": 4, "jobs": 1, "gpu_hours": 4.0}, {"gpus": 8, "jobs": 1, "gpu_hours": 16.0}] == found["sizes"]


def test_a_trace_is_turned_into_maars_own_format(tmp_path: Path) -> None:
    done = maar("convert", "-", given=PHILLY)
    assert (0, "") == (done.exit_code, done.stderr)
    assert "# maar trace convert: from standard input" == done.stdout.splitlines()[0]
    file = tmp_path / "own.csv"
    file.write_text(done.stdout)
    assert [("job-1", 4, 3600.0), ("job-2", 8, 7200.0)] == [
        (job.name, job.gpus, job.duration) for job in load_trace(str(file)).jobs
    ]


def test_what_is_wrong_is_said_and_nothing_is_printed() -> None:
    done = maar("describe", "-", "--format", "philly", given=PHILLY + "x,1,four\n")
    assert (2, "") == (done.exit_code, done.stdout)
    assert [
        "standard input:4: num_gpus: expected a whole number of at least 1, got `four`",
        "standard input:4: timestamp: expected a number, got `x`",
    ] == done.stderr.splitlines()


@pytest.mark.parametrize(
    ("file", "expected"),
    [("no-such.csv", "no-such.csv: no such file\n"), (".", ".: cannot be read: Is a directory\n")],
)
def test_a_file_that_cannot_be_read_is_named(file: str, expected: str) -> None:
    done = maar("describe", file)
    assert (2, expected) == (done.exit_code, done.stderr)


def test_an_unknown_format_is_named() -> None:
    done = maar("describe", "-", "--format", "phily", given=PHILLY)
    assert (2, "unknown format `phily`; did you mean `philly`? known: maar, muri, philly, pollux, recorded\n") == (
        done.exit_code,
        done.stderr,
    )
