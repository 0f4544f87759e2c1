"""`maar history`: output for a database that a running Maar filled."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from maar.cli.main import main
from maar.history.address import read_address
from maar.history.records import Event, EventKind, Measurement, Record
from maar.history.store import Store

T = 1_793_527_200.0
"""2026-11-01 10:00:00Z"""


def run(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["history", *arguments], env={"MAAR_HISTORY": None, **(env or {})})


def event(kind: EventKind, at: float, before: int = 0, after: int = 0, **more: Any) -> Event:
    fields: dict[str, Any] = {"uid": "u", "category": "team/resnet", "accelerator": "a100", "gpus_per_worker": 8} | more
    return Event("team", "resnet-1", kind, T + at, before=before, after=after, **fields)


def epoch(number: int, workers: int, seconds: float, started: float, **more: Any) -> Measurement:
    fields: dict[str, Any] = {"category": "team/resnet", "accelerator": "a100", "uid": "u", "total_epochs": 10} | more
    return Measurement(
        "team", "resnet-1", number, seconds, workers, T + started + seconds, started=T + started, **fields
    )


STORY: list[Record] = [
    event(EventKind.SUBMITTED, 0),
    event(EventKind.STARTED, 60, 0, 1),
    epoch(0, 1, 100, 70),
    epoch(1, 1, 100, 170),
    event(EventKind.RESIZED, 280, 1, 2),
    epoch(2, 2, 60, 300),
    epoch(3, 2, 60, 360),
    event(EventKind.RESIZED, 425, 2, 4),
    epoch(4, 4, 40, 440),
    event(EventKind.SUSPENDED, 500, 4, 0),
    event(EventKind.STARTED, 1000, 0, 2),
    event(EventKind.ENDED, 1960, 2, 0, how="completed"),
]
GPU_SECONDS = 8 * ((280 - 60) * 1 + (425 - 280) * 2 + (500 - 425) * 4 + (1960 - 1000) * 2)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "h.db")


def fill(file: str, records: list[Record]) -> None:
    store = Store(read_address(file))
    store.open()
    store.write(records)
    store.close()


def test_accounts_and_categories_as_text(file: str) -> None:
    fill(file, STORY)
    result = run("--history", file)
    assert (0, "") == (result.exit_code, result.stderr)
    rows = [line.split() for line in result.stdout.splitlines()]
    (job,) = [row for row in rows if row[:1] == ["team/resnet-1"]]
    hours = f"{GPU_SECONDS / 3600:.1f}"
    assert [
        *("team/resnet-1", "completed", "0", "2026-11-01", "10:00:00Z", "2026-11-01", "10:01:00Z"),
        *("2026-11-01", "10:32:40Z", "9.33", "min", "2", "0", hours, "5/10", "-"),
    ] == job
    assert "team/resnet on a100: 5 measurements" in result.stdout.splitlines()
    points = [row[:-1] for row in rows if row and row[0] in "1248" and len(row) > 4]
    assert [
        ["1", "2", "100", "s", "1.00", "1.00"],
        ["2", "2", "60", "s", "1.67", "1.67"],
        ["4", "1", "40", "s", "2.50", "2.50"],
        ["8", "-", "-", "-", "3.33"],
    ] == points
    assert "  curve: fitted step times" in result.stdout.splitlines()
    fit = "  fit: error 0%, from 5 epochs in 3 settings; largest size: 63% compute, 37% inside nodes"
    assert fit in result.stdout.splitlines()


def test_a_fit_that_is_not_used_says_why(file: str) -> None:
    fill(file, [epoch(n, workers, 100.0, 200.0 * n) for n, workers in enumerate((1, 2))])
    text = run("--history", file).stdout
    assert "  curve: measured points" in text.splitlines()
    assert "in 2 settings; largest size: 50% compute, 50% inside nodes; not used: needs 3 settings" in text
    odd = enumerate((1.0, 90.0, 2.0, 500.0, 1.0, 900.0))
    fill(file, [epoch(n, n + 1, seconds, 1e4 + 1e3 * n, category="odd") for n, seconds in odd])
    assert "; not used: error above 20%" in run("--history", file, "team/odd").stdout


def test_a_noise_scale_is_shown(file: str) -> None:
    its = {"global_batch_size": 64, "noise_scale": 1234.5}
    fill(file, [epoch(n, workers, 100.0, 200.0 * n, **its) for n, workers in enumerate((1, 2, 4))])
    assert "  curve: fitted step times and the noise scale, noise scale 1,234 samples" in (
        run("--history", file).stdout.splitlines()
    )
    (category,) = json.loads(run("--history", file, "-o", "json").stdout)["categories"]
    assert (1234.5, 3, 3) == (category["noise_scale"], category["fit"]["settings"], category["fit"]["epochs"])


def test_accounts_and_categories_as_json(file: str) -> None:
    fill(file, STORY)
    seen = json.loads(run("--history", f"sqlite:///{file}", "-o", "json").stdout)
    (job,) = seen["jobs"]
    assert {
        "job": "team/resnet-1", "uid": "u", "category": "team/resnet", "accelerator": "a100", "state": "completed",
        "submitted": T, "first_start": T + 60, "ended": T + 1960, "workers": 0, "resizes": 2, "suspensions": 1,
        "evictions": 0, "waited_seconds": 560.0,
        "gpu_hours": GPU_SECONDS / 3600, "epoch": 4, "total_epochs": 10, "remaining_seconds": None,
    }.items() <= job.items()  # fmt: skip
    assert ["submitted", "started", "resized", "resized", "suspended", "started", "ended"] == [
        e["kind"] for e in job["events"]
    ]
    (category,) = seen["categories"]
    assert 5 == category["measurements"]
    sizes = {size.pop("workers"): size for size in category["sizes"]}
    assert {
        "epochs": 2,
        "epoch_seconds": 60.0,
        "speedup": 100 / 60,
        "curve": pytest.approx(100 / 60, rel=1e-3),
    } == sizes[2]
    assert [1, 2, 4, 8] == list(sizes)


def test_a_job_that_runs_is_counted_up_to_now(file: str) -> None:
    start = time.time() - 7200 - T
    fill(file, [event(EventKind.STARTED, start, 0, 2, attained=3600.0), epoch(0, 2, 60, start + 10)])
    (job,) = json.loads(run("--history", file, "-o", "json").stdout)["jobs"]
    assert ("running", 2) == (job["state"], job["workers"])
    assert pytest.approx(1 + 2 * 8 * 2, abs=0.1) == job["gpu_hours"]
    assert 9 * 2 * 60 == job["remaining_seconds"]


def test_one_job_with_its_life(file: str) -> None:
    other = Measurement("team", "bert", 0, 5.0, 1, T, category="team/bert")
    fill(file, [*STORY, other])
    for asked in ("team/resnet-1", "resnet-1", "team/resnet"):
        text = run("--history", file, asked).stdout
        assert "2 -> 4" in text
        assert "ended: completed" in text
        assert "bert" not in text
    assert "team/resnet on a100: 5 measurements" in run("--history", file, "resnet-1").stdout
    text = run("--history", file, "team/bert").stdout
    assert "team/bert: 1 measurement" in text.splitlines()
    assert "resnet" not in text


def test_who_is_not_known_gets_a_suggestion(file: str) -> None:
    fill(file, STORY)
    result = run("--history", file, "team/resnet-2")
    assert (2, "unknown job or category `team/resnet-2`; did you mean `team/resnet-1`?\n") == (
        result.exit_code,
        result.stderr,
    )


def test_a_curve_of_another_accelerator_says_so(file: str) -> None:
    fill(file, [*STORY, epoch(0, 4, 10, 9999, accelerator="h100")])
    assert "team/resnet on h100: 1 measurement, curve from a100" in run("--history", file).stdout.splitlines()


def test_nothing_yet(file: str, tmp_path: Path) -> None:
    result = run("--history", file)
    said = f"{file}: empty; `maar run --history` records jobs, `maar.report` records epochs\n"
    assert (0, said) == (result.exit_code, result.stdout)
    assert [] == list(tmp_path.iterdir())
    assert {"jobs": [], "categories": []} == json.loads(run("--history", file, "-o", "json").stdout)
    fill(file, [])
    assert said == run("--history", file).stdout


def test_the_default_is_the_state_folder(tmp_path: Path) -> None:
    place = tmp_path / "maar" / "history.db"
    assert run(env={"XDG_STATE_HOME": str(tmp_path)}).stdout.startswith(f"{place}: empty;")
    fill(str(place), STORY)
    assert "team/resnet-1" in run(env={"XDG_STATE_HOME": str(tmp_path)}).stdout
    assert "team/resnet-1" in run(env={"MAAR_HISTORY": str(place)}).stdout


@pytest.mark.parametrize(
    ("where", "code", "error"),
    [
        (
            "postgresql://me:secret@127.0.0.1:1/maar",
            3,
            "cannot read the history: postgresql://me:***@127.0.0.1:1/maar: ",
        ),
        ("mysql://me:secret@db/maar", 2, "history: unknown database type: `mysql`; known: postgresql, sqlite"),
        ("none", 2, "no history: the address is `none`; set another one with --history"),
    ],
)
def test_what_cannot_be_read_is_said_without_secrets(where: str, code: int, error: str) -> None:
    result = run("--history", where)
    assert code == result.exit_code
    assert result.stderr.startswith(error)
    assert "secret" not in result.output
    assert 1 == len(result.stderr.splitlines())


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no database " * 1000)
    result = run("--history", str(tmp_path / "x"))
    assert (3, f"cannot read the history: {tmp_path}/x: file is not a database\n") == (
        result.exit_code,
        result.stderr,
    )


def test_the_command_is_in_the_table() -> None:
    assert 0 == CliRunner().invoke(main, ["history", "--help"]).exit_code
