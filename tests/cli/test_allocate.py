"""`maar allocate` from end to end: a file and options in, sizes or one message out."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from maar.cli.main import main
from maar.cli.support.allocate_file import read_jobs
from maar.config.config import Registration
from maar.config.problems import ConfigError
from maar.elastic.allocate import allocate
from maar.elastic.jobs import make_jobs
from maar.registry import ALGORITHMS

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs/elastic.md").read_text()

Write = Callable[[object], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write jobs or text to a file, and return its path."""

    def written(content: object) -> str:
        file = tmp_path / "jobs.yaml"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(file)

    return written


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["allocate", *arguments], input=stdin)


def plan(file: str, algorithm: str = "elastic-fifo", gpus: int = 8, *more: str) -> Any:
    result = run("--algorithm", algorithm, "--gpus", str(gpus), "-o", "json", *more, file)
    assert (0, "") == (result.exit_code, result.stderr)
    return json.loads(result.stdout)


def refused(file: str, *arguments: str) -> list[str]:
    """The errors of an invalid file, without its name."""
    result = run(*(arguments or ("--algorithm", "fifo", "--gpus", "8")), file)
    assert (2, "") == (result.exit_code, result.stdout)
    lines = result.stderr.splitlines()
    assert [] == [line for line in lines if not line.startswith(f"{file}: ")]
    return [line.removeprefix(f"{file}: ") for line in lines]


def test_json_is_sizes_in_workers(write: Write) -> None:
    file = write([{"name": "b", "max": 4, "gpus_per_worker": 2}, {"name": "a", "max": 4}])
    result = run("--algorithm", "elastic-fifo", "--gpus", "7", "-o", "json", file)
    assert '{"plan":{"b":2,"a":3}}\n' == result.stdout


def test_yaml_and_json_and_a_mapping_and_standard_input(write: Write) -> None:
    text = "jobs:\n- {name: a, max: 9, speedup: {1: 1, 2: 1.5}}\n- name: b\n"
    expected = {"plan": {"a": 7, "b": 1}}
    assert expected == plan(write(text))
    assert expected == plan(write({"jobs": [{"name": "a", "max": 9, "speedup": {"1": 1, "2": 1.5}}, {"name": "b"}]}))
    result = run("--algorithm", "elastic-fifo", "--gpus", "8", "-o", "json", "-", stdin=text)
    assert expected == json.loads(result.stdout)


def test_no_jobs_are_an_empty_plan(write: Write) -> None:
    assert {"plan": {}} == plan(write([]))


def test_numbers_as_yaml_spells_them(write: Write) -> None:
    file = write("- {name: a, remaining: 1e5, min: '1'}\n- {name: 7, remaining: 2e3}\n- {name: c, remaining: null}\n")
    assert {"plan": {"a": 0, "7": 1, "c": 0}} == plan(file, "srjf", 1)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
def test_every_field_reaches_the_algorithm(algorithm: Registration, write: Write) -> None:
    dice = np.random.default_rng(5)
    n = 30
    least = dice.integers(1, 3, n)
    columns: dict[str, Any] = {
        "submit": dice.integers(0, 5, n).astype(float),
        "min": least,
        "max": least + dice.integers(2, 4, n),
        "requested": least + dice.integers(0, 2, n),
        "priority": dice.integers(0, 2, n),
        "remaining": dice.integers(1, 999, n).astype(float),
        "attained": dice.integers(0, 9000, n).astype(float),
        "first_start": dice.integers(0, 9, n).astype(float),
        "waited": dice.integers(0, 9000, n).astype(float),
        "ran": dice.integers(0, 900, n).astype(float),
        "size": dice.integers(0, 3, n),
        "restart": dice.integers(0, 60, n).astype(float),
        "done": dice.integers(0, 9000, n).astype(float),
        "delayed": dice.integers(0, 90_000, n).astype(float),
        "promised": dice.integers(0, 9000, n).astype(float),
    }
    gpus = dice.choice([1, 2], n)
    names = [f"j{i}" for i in range(n)]
    listed = [
        {"name": name, "gpus_per_worker": int(gpus[i]), **{key: column[i].item() for key, column in columns.items()}}
        for i, name in enumerate(names)
    ]
    expected = allocate(algorithm, make_jobs(names, gpus=gpus, **columns), 40).tolist()
    assert {"plan": dict(zip(names, expected, strict=True))} == plan(write(listed), algorithm.name, 40)


def test_text_says_who_waits_and_why(write: Write) -> None:
    file = write(
        [
            {"name": "runs", "min": 2, "requested": 3, "max": 4},
            {"name": "late", "min": 1, "requested": 2, "max": 2, "submit": 1},
            {"name": "big", "min": 2, "gpus_per_worker": 8, "submit": 2},
            {"name": "wide", "gpus_per_worker": 4, "submit": 3},
        ]
    )
    result = run("--algorithm", "tiresias", "--gpus", "4", file)
    assert 0 == result.exit_code
    rows = [re.split(r" {2,}", line) for line in result.stdout.splitlines()]
    assert ["job", "bounds", "workers", "GPUs", "why it waits"] == rows[0]
    assert [
        ["runs", "2..4", "3", "3"],
        ["late", "1..2", "0", "0", "asks for 2 GPUs (2 workers of 1), 1 left"],
        ["big", "2", "0", "0", "needs 16 GPUs (2 workers of 8), there are 4"],
        ["wide", "1", "0", "0", "needs 4 GPUs (1 worker of 4), 1 left"],
    ] == rows[2:6]
    assert ["3 of 4 GPUs in use, 1 job runs, 3 wait"] == rows[-1]


def test_a_job_that_nothing_but_others_keeps_waiting(write: Write) -> None:
    flat = {"name": "a", "max": 1}
    file = write([flat, {**flat, "name": "b"}, {**flat, "name": "c", "gpus_per_worker": 2}])
    assert "other jobs come first" not in run("--algorithm", "ffdl", "--gpus", "2", file).stdout
    first = run("--algorithm", "ffdl", "--gpus", "1", write([{"name": "b", "min": 2}, {"name": "c", "submit": 1}]))
    assert re.search(r"^c +1 +0 +0 +other jobs come first$", first.stdout, re.MULTILINE)


def test_a_mistyped_algorithm_gets_a_suggestion_and_no_plan(write: Write) -> None:
    """In Voda a mistyped name made the allocation fail, and a failed allocation was a plan that stops all jobs."""
    result = run("--algorithm", "tiresia", "--gpus", "8", "-o", "json", write([{"name": "a"}]))
    assert (2, "") == (result.exit_code, result.stdout)
    known = ", ".join(sorted(algorithm.name for algorithm in ALGORITHMS))
    assert f"unknown algorithm `tiresia`; did you mean `tiresias`? known: {known}\n" in result.stderr


def test_parameters(write: Write) -> None:
    jobs = [{"name": "old", "attained": 100, "first_start": 0}, {"name": "young", "first_start": 1}]
    file = write(jobs)
    assert {"plan": {"old": 1, "young": 0}} == plan(file, "tiresias", 1)
    assert {"plan": {"old": 0, "young": 1}} == plan(
        file, "tiresias", 1, "--set", "thresholds=50, 90", "--set", "knob=2"
    )


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (["knob=fast"], "--set: tiresias.knob: expected a number above 0"),
        (["knbo=2"], "--set: tiresias: unknown argument `knbo`; did you mean `knob`? known: knob, queues, thresholds"),
        (["thresholds=9,8"], "--set: tiresias: thresholds: expected rising GPU seconds"),
        (["queues=3"], "--set: tiresias: queues: 3 queues have 2 thresholds between them, got 1"),
        (["knob"], "--set: expected NAME=VALUE, got `knob`"),
        (["knob=1", "knob=2"], "--set: `knob` is given twice"),
    ],
)
def test_parameters_that_cannot_be(settings: list[str], why: str, write: Write) -> None:
    options = [part for setting in settings for part in ("--set", setting)]
    result = run("--algorithm", "tiresias", "--gpus", "1", *options, write([{"name": "a"}]))
    assert (2, "") == (result.exit_code, result.stdout)
    assert why in result.stderr


def test_an_algorithm_without_parameters_takes_none(write: Write) -> None:
    result = run("--algorithm", "fifo", "--gpus", "1", "--set", "knob=1", write([{"name": "a"}]))
    assert "unknown argument `knob`; `fifo` takes no arguments" in result.stderr


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", ["jobs: expected a list of jobs, got nothing"]),
        ("5", ["jobs: expected a list of jobs, got `5`"]),
        ({"jobs": {"a": 1}}, ["jobs: expected a list of jobs, got a mapping"]),
        (
            {"job": []},
            ["unknown key `job`; did you mean `jobs`? known: jobs", "jobs: expected a list of jobs, got nothing"],
        ),
        ("- {name: a, min: [", ["line 2, column 1: not valid YAML: "]),
        ("- {name: a, min: 1, min: 2}", ["line 1, column 21: not valid YAML: `min` is given twice"]),
        ('[{"name": "a", "min": 1, "min": 2}]', ["line 1, column 26: not valid YAML: `min` is given twice"]),
        ("[" * 3_000 + "]" * 3_000, ["lists and mappings are nested too deeply"]),
        (
            '[{"name": "a", "max": 8, "speedup": {"1": 1e-320, "2": 5}}]',
            ["jobs[0].speedup: expected at least 1 worker and a speed-up above 0, got `1` workers: `1e-320`"],
        ),
        (["a"], ["jobs[0]: expected a mapping, got `a`"]),
        ([{"min": 1}], ["jobs[0]: a job needs a `name`"]),
        ([{"name": ""}], ["jobs[0].name: expected a name, got ``"]),
        (
            [{"name": "a", "min": "many"}],
            ["jobs[0].min: expected a whole number from 1 to 1,000,000, got `many`"],
        ),
        (
            [{"name": "a", "min": 0}],
            ["jobs[0].min: expected a whole number from 1 to 1,000,000, got `0`"],
        ),
        (
            [{"name": "a", "max": 2.5}],
            ["jobs[0].max: expected a whole number from 1 to 1,000,000, got `2.5`"],
        ),
        ([{"name": "a", "submit": -1}], ["jobs[0].submit: expected a number of at least 0, got `-1`"]),
        ("- {name: a, remaining: .nan}", ["jobs[0].remaining: expected a number of at least 0, got `nan`"]),
        ("- {name: a, ran: .inf}", ["jobs[0].ran: expected a number of at least 0, got `inf`"]),
        ([{"name": "a"}, {"name": "b", "min": 4, "max": 2}], ["jobs[1].max: expected at least `min`, 4, got `2`"]),
        (
            [{"name": "a", "min": 2, "max": 4, "requested": 8}, {"name": "b", "min": 2, "requested": 1}],
            [
                "jobs[0].requested: expected a size from 2 to 4, got `8`",
                "jobs[1].requested: expected a size from 2 to 2, got `1`",
            ],
        ),
        ([{"name": "a"}, {"name": "b"}, {"name": "a"}], ["jobs[2].name: already used by jobs[0]: `a`"]),
        (
            [{"name": "a", "speedup": {"2": 0, "1": 1}}, {"name": "b", "speedup": 3}],
            [
                "jobs[0].speedup: expected at least 1 worker and a speed-up above 0, got `2` workers: `0`",
                "jobs[1].speedup: expected speed-ups by workers, e.g. `{1: 1.0, 2: 1.8}`, got `3`",
            ],
        ),
        (
            [{"name": "a", "request": 3, "min": -1}],
            [
                "jobs[0]: unknown field `request`; did you mean `requested`? known: attained, delayed, ",
                "jobs[0].min: expected a whole number from 1 to 1,000,000, got `-1`",
            ],
        ),
        ([{"name": "a", "priority": 2**70}], ["jobs[0].priority: expected a whole number"]),
    ],
)
def test_a_bad_file_gets_a_path_and_a_reason(content: object, why: list[str], write: Write) -> None:
    said = refused(write(content))
    assert len(why) == len(said)
    assert [] == [(expected, line) for expected, line in zip(why, said, strict=True) if not line.startswith(expected)]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert ["no such file"] == refused(str(tmp_path / "nothing.yaml"))
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    (said,) = refused(str(binary))
    assert said.startswith("cannot be read: ")


@pytest.mark.parametrize("gpus", ["-1", "many", "1.5"])
def test_gpus_are_a_number(gpus: str, write: Write) -> None:
    result = run("--algorithm", "fifo", "--gpus", gpus, write([]))
    assert (2, "") == (result.exit_code, result.stdout)
    assert "--gpus" in result.stderr


def test_many_jobs_are_read_quickly_enough_to_be_read_at_all() -> None:
    listed = [{"name": f"job-{i}", "max": 16, "speedup": {"1": 1.0, "2": 1.5 + i / 1e5}} for i in range(2_000)]
    jobs = read_jobs(json.dumps(listed), "many")
    assert 2_000 == len(jobs)
    assert [0.0, 1.0, 1.5] == jobs.speedup(0)[:3].tolist()
    with pytest.raises(ConfigError, match=r"many: jobs\[1999\]\.min: "):
        read_jobs(json.dumps([*listed[:-1], {"name": "x", "min": -1}]), "many")


# -- the documentation


def tidy(text: str) -> str:
    """The lines that are not empty."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def shown_commands() -> list[tuple[str, str]]:
    """The commands of the page, with their shown output."""
    found = re.findall(r"^    \$ maar allocate (.*)\n((?:(?:    .*)?\n)*)", DOCS, re.MULTILINE)
    return [(command, tidy(shown)) for command, shown in found]


def test_the_page_has_examples() -> None:
    assert 3 == len(shown_commands())


@pytest.mark.parametrize(("command", "shown"), shown_commands())
def test_the_page_shows_what_comes_out(command: str, shown: str) -> None:
    arguments = [str(ROOT / part) if part.startswith("examples/") else part for part in shlex.split(command)]
    result = run(*arguments)
    assert 0 == result.exit_code
    assert shown == tidy(result.stdout)


def test_the_page_names_every_algorithm_field_and_parameter() -> None:
    assert [] == [
        algorithm.name
        for algorithm in ALGORITHMS
        if f"| `{algorithm.name}` |" not in DOCS and f"`{algorithm.name}`" not in DOCS
    ]
    rows = set(re.findall(r"^\| `([a-z-]+)` \| ", DOCS, re.MULTILINE))
    assert {algorithm.name for algorithm in ALGORITHMS} <= rows
    parameters = {name for algorithm in ALGORITHMS for name in algorithm.arguments.__struct_fields__}
    assert [] == [name for name in sorted(parameters) if f"| `{name}` |" not in DOCS]


def test_the_algorithm_of_ones_own_works() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    made: dict[str, Any] = {}
    exec(code, made)
    jobs = make_jobs(["small", "large", "larger"], max=[2, 4, 9])
    assert [2, 4, 0] == allocate(made["largest"], jobs, 7).tolist()
