"""Messages of commands: a wrong name gets a suggestion, what does not exist is said, and numbers read well."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import yaml
from tests.support.commands import filled, maar
from tests.support.live import OUR_CRDS, Live, connected
from tests.support.web import MINE, THEIRS, gang

from maar.cli.asking.tables import jobs_text, starts
from maar.embedded.server import EmbeddedServer
from maar.kube.wire.api_resources import PODS
from maar.views.records import JobView, StartView, State
from maar.web.api.errors import Refused
from maar.web.api.question import EDITS, WebEdit, better, edit_problem

LIST = ", ".join(sorted(EDITS))


@pytest.fixture
def kubeconfig(server: EmbeddedServer, tmp_path: Path) -> Path:
    async def fill(cluster: Live) -> None:
        await cluster.crds(OUR_CRDS)
        await cluster.nodes(1, gpu=8)
        await cluster.queue("research")
        for name in (MINE, THEIRS, "empty"):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await cluster.create("/api/v1/namespaces", body)
        await gang(cluster.api, MINE, "train", 2, gpu=4, queue="research")
        await gang(cluster.api, THEIRS, "vgg16", 1, gpu=16, queue="research")

    return filled(server, tmp_path, fill)


def refused(*arguments: str, kubeconfig: Path, given: str | None = None) -> str:
    result = maar(*arguments, kubeconfig=kubeconfig, given=given)
    assert (2, "") == (result.exit_code, result.stdout), result.stderr
    return result.stderr


# -- edits


def test_a_mistyped_edit_gets_the_nearest_and_the_list(kubeconfig: Path) -> None:
    said = refused("what-if", "-f", "-", kubeconfig=kubeconfig, given="{edit: cordn, nodes: [n0]}")
    assert f"stdin: document 1: unknown edit `cordn`; did you mean `cordon`? known: {LIST}" in said


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_has_suggestions_for_its_name_and_its_fields(name: str) -> None:
    wrong = f"{name[:-1]}{name[-1]}x"
    assert f"unknown edit `{wrong}`; did you mean `{name}`?" in edit_problem("", {"edit": wrong})
    for field in msgspec.structs.fields(EDITS[name]):
        mistyped = f"{field.encode_name}x"
        try:
            msgspec.convert({"edit": name, mistyped: 1}, WebEdit)
        except msgspec.ValidationError as error:
            text = edit_problem(str(error), {"edit": name, mistyped: 1})
            assert f"unknown field of `{name}` `{mistyped}`; did you mean `{field.encode_name}`?" in text
        else:
            raise AssertionError(name)


def test_a_missing_field_of_an_edit_is_named() -> None:
    assert "`cordon` needs the field `nodes`; its fields: nodes" == edit_problem(
        "Object missing required field `nodes`", {"edit": "cordon"}
    )
    assert set(get_args(WebEdit)) == set(EDITS.values())


def test_the_api_says_the_same() -> None:
    body = msgspec.json.encode({"edits": [{"edit": "cordon", "nodes": ["n"]}, {"edit": "cordn"}]})
    found = better(Refused(422, "Invalid value 'cordn'", "edits[1].edit"), body)
    assert ("edits[1].edit", f"unknown edit `cordn`; did you mean `cordon`? known: {LIST}") == (
        found.view.field,
        found.view.error,
    )


# -- names


@pytest.mark.parametrize("command", ["why", "when"])
@pytest.mark.parametrize(
    ("name", "near"),
    [(f"{MINE}/trai", f"`{MINE}/train`"), (f"{MINE}/vgg16", f"`{THEIRS}/vgg16`"), ("train", f"`{MINE}/train`")],
)
def test_a_wrong_job_gets_the_nearest_names(kubeconfig: Path, command: str, name: str, near: str) -> None:
    said = refused(command, name, kubeconfig=kubeconfig)
    assert f"no such job that you may see; did you mean {near}" in said


@pytest.mark.parametrize("edit", ["end-jobs, jobs: [mine/trai]", "set-queue, job: mine/trai, queue: research"])
def test_edits_suggest_names_too(kubeconfig: Path, edit: str) -> None:
    said = refused("what-if", "-f", "-", kubeconfig=kubeconfig, given=f"{{edit: {edit}}}")
    assert "no such job that you may see; did you mean `mine/train`" in said


@pytest.mark.parametrize("command", [["hold"], ["release"], ["cancel"], ["set", "--queue", "research"]])
def test_commands_that_write_suggest_names_too(kubeconfig: Path, command: list[str]) -> None:
    said = refused(*command, f"{MINE}/trai", kubeconfig=kubeconfig)
    assert f"no job `{MINE}/trai` was found; did you mean `{MINE}/train`" in said
    said = refused(*command, f"{MINE}/train", "--kind", "PodGruop", kubeconfig=kubeconfig)
    assert "kind: unknown kind `PodGruop`; did you mean `PodGroup`? known:" in said


def test_namespaces_and_queues_that_do_not_exist_are_said(kubeconfig: Path) -> None:
    said = refused("jobs", "-n", "mnie", kubeconfig=kubeconfig)
    assert "unknown namespace `mnie`; did you mean `mine`? known:" in said
    said = refused("jobs", "-q", "researc", kubeconfig=kubeconfig)
    assert "unknown queue `researc`; did you mean `research`? known: default, research" in said
    for arguments in (["-n", "empty"], ["-q", "default"]):
        result = maar("jobs", *arguments, kubeconfig=kubeconfig)
        assert (0, "no jobs\n") == (result.exit_code, result.stdout), "it is there, and has none"
    said = refused("queues", "--resource", "nvidia.com/gpus", kubeconfig=kubeconfig)
    assert "unknown resource `nvidia.com/gpus`; did you mean `nvidia.com/gpu`? known:" in said


def test_a_kubeconfig_without_contexts_says_that(kubeconfig: Path) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    nothing: tuple[list[str] | None, ...] = ([], None)
    for contexts in nothing:
        kubeconfig.write_text(yaml.safe_dump({**config, "contexts": contexts, "current-context": ""}))
        for arguments in (["jobs"], ["hold", "a/b"]):
            result = maar(*arguments, kubeconfig=kubeconfig)
            assert (3, "") == (result.exit_code, result.stdout)
            assert f"{kubeconfig}: this kubeconfig has no contexts" in result.stderr


def test_a_held_job_says_how_it_is_released(kubeconfig: Path) -> None:
    maar("hold", f"{MINE}/train", kubeconfig=kubeconfig)
    text = " ".join(maar("why", f"{MINE}/train", kubeconfig=kubeconfig).stdout.split())
    assert f"it does not start before `maar release {MINE}/train`" in text
    result = maar("release", f"{MINE}/train", kubeconfig=kubeconfig)
    assert 0 == result.exit_code, result.stderr


def test_a_gang_that_lacks_pods_says_how_many_do_not_exist(kubeconfig: Path) -> None:
    async def less() -> None:
        async with connected(kubeconfig) as cluster:
            await gang(cluster.api, MINE, "four", 4)
            for i in range(2, 4):
                await cluster.api.delete(PODS.path(MINE, f"four-{i}"))

    asyncio.run(less())
    text = " ".join(maar("why", f"{MINE}/four", kubeconfig=kubeconfig).stdout.split())
    assert re.search(r"needs 2 pods with 1 nvidia.com/gpu.* minimum: 4 pods, of which 2 do not exist yet has", text)


# -- numbers


def job(**fields: Any) -> JobView:
    return JobView(
        **{
            **{"namespace": "a", "name": "j", "queue": "q", "state": State.WAITING, "priority": 0, "created": 0.0},
            **{"since": 0.0, "minimum": 1, "pods": {}, "requests": {}, "allocated": {}, "elastic": None},
            **{"owner": None, "condition": "", "why": "", "held": False, "nodes": (), "shard": None},
            **fields,
        }
    )


def forecast(p50: float, p90: float | None) -> StartView:
    return StartView(verdict="expected", start_p50=p50, start_p90=p90)


@pytest.mark.parametrize(
    ("p50", "p90", "text"),
    [(3600.0, 3700.0, "in 1h"), (3600.0, 7300.0, "in 1h to 2h"), (60.0, None, "in 1m to ?")],
)
def test_a_range_whose_ends_read_the_same_is_one_time(p50: float, p90: float | None, text: str) -> None:
    assert text == starts(job(forecast=forecast(p50, p90)), 0.0)


def test_large_counts_have_separators() -> None:
    many = [job(name=f"j{i}") for i in range(1028)]
    text = jobs_text(many, {"waiting": 2000}, 0.0, wide=False)
    assert text.endswith("1,028 jobs: 1,028 waiting\nand 2,000 jobs that you may not see\n")
