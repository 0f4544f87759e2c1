"""`maar why` from end to end: manifests and a job in, an answer or one message out."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from maar.cli.main import main
from maar.kube.picture.manifests import read

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NOW = ("--now", "2026-11-01T10:00:00Z", "--seconds", "60")
"""Time enough for every search, also on a busy machine."""


def why(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["why", *NOW, *arguments])


def example(number: int, job: str, *options: str) -> str:
    (path,) = EXAMPLES.glob(f"{number}-*.yaml")
    done = why(f"team/{job}", "-f", str(path), *options)
    assert (0, "") == (done.exit_code, done.stderr)
    return done.stdout


def answer(number: int, job: str, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(example(number, job, "-o", "json", *options))
    return found


def test_what_it_needs_why_it_waits_and_what_would_start_it() -> None:
    text = example(2, "llama")
    assert text.startswith("team/llama waits\n")
    for part in (
        "queue     default, place 1 of 2\n",
        "since     2026-11-01 09:00:00Z, 1 h ago\n",
        "needs     5 pods with 4 nvidia.com/gpu, 8 cpu, 64Gi memory each\n",
        "has       5 pending\n",
        "\nwhy\n  never on today's nodes: needs 5 pods together",
        "each of these alone would start it",
        "add 1 node like `gpu-1`",
    ):
        assert part in text


def test_the_jobs_that_go_first() -> None:
    text = example(7, "long")
    assert re.search(r"^jobs of queue default that go first +because +by$", text, re.MULTILINE)
    assert re.search(r"^team/wide +older +created$", text, re.MULTILINE)
    assert "release the nodes that are reserved for `team/wide`" in text


@pytest.mark.parametrize(
    ("number", "job", "state"),
    [
        (2, "bert", "team/bert runs"),
        (2, "notebook", "team/notebook starts in the next cycle"),
        (3, "urgent", "team/urgent waits for room that is being freed for it"),
        (4, "urgent", "team/urgent waits"),
    ],
)
def test_how_far_it_is(number: int, job: str, state: str) -> None:
    text = example(number, job)
    assert state == text.splitlines()[0]
    assert (state == "team/urgent waits") == ("would start it" in text)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("[0-9]*.yaml")), ids=lambda path: path.stem)
def test_every_job_of_the_examples_has_an_answer_that_fits_80_columns(path: Path) -> None:
    jobs = read([str(path)]).cluster.jobs
    assert jobs
    for job in jobs:
        done = why(job.key, "-f", str(path))
        assert 0 == done.exit_code, done.stderr
        assert max(map(len, done.stdout.splitlines())) <= 80


def test_json() -> None:
    data = answer(2, "llama")
    assert ("team/llama", "waits", {"pending": 5}) == (data["job"], data["start"], data["pods"])
    assert {"number": 1, "waiting": 2} == {key: data["place"][key] for key in ("number", "waiting")}
    assert ["NotEnoughResources"] == [reason["code"] for reason in data["reasons"]]
    changes = {change["kind"]: change["edits"] for change in data["unblock"]["changes"]}
    assert [{"edit": "set-minimum", "job": "team/llama", "minimum": 3}] == changes["minimum"]
    assert data["unblock"]["complete"]


def test_no_time_for_the_search() -> None:
    assert [] == answer(2, "llama", "--seconds", "0")["unblock"]["changes"]
    text = example(2, "llama", "--seconds", "0")
    assert text.endswith("no change found that would start it: the search ended early (--seconds)\n")


def test_none_found(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {schedulerName: maar, containers: [{name: c}]}\n"
    )
    done = why("p", "-f", str(job))
    assert done.stdout.endswith("no change that Maar can try would start it\n")
    assert "warning: the input has no nodes" in done.stderr
    assert json.loads(why("p", "-f", str(job), "-o", "json").stdout)["warnings"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("team/llamas", "-f", "{2}"),
            "unknown job `team/llamas`; did you mean `team/llama`? known: team/bert, team/llama, team/notebook",
        ),
        (("llama", "-f", "{2}"), "unknown job `default/llama`; did you mean `team/llama`?"),
        (("team/llama", "-f", "no-such.yaml"), "no-such.yaml: no such file"),
        (("team/llama", "-f", "{2}", "--config", "no-such.yaml"), "no-such.yaml: no such file"),
    ],
)
def test_one_message_after_an_error(arguments: tuple[str, ...], message: str) -> None:
    (path,) = EXAMPLES.glob("2-*.yaml")
    done = why(*(argument.replace("{2}", str(path)) for argument in arguments))
    assert 2 == done.exit_code
    assert "" == done.stdout
    assert message in done.stderr
