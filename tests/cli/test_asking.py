"""`maar jobs`, `why`, `when`, `queues`, `nodes`, `what-if` and `plan --live`: decided here, or asked of `maar web`."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from tests.support.commands import filled, maar
from tests.support.live import GPU, NAMESPACE, OUR_CRDS, Live, connected
from tests.support.patience import PATIENCE, until
from tests.support.web import ADMIN, MINE, THEIRS, USER, Web, gang, webbing

from maar.cli.main import main
from maar.config.file import default_text
from maar.controller.settings.brakes import Brakes, BrakeSettings
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.settings import Settings
from maar.controller.writing.publishing import Publisher
from maar.embedded.server import EmbeddedServer
from maar.forecast.arrivals import Asked, Pods
from maar.history.address import read_address
from maar.history.records import FinishedRun, Prediction
from maar.history.store import Store
from maar.kube.kinds import volcano_podgroup
from maar.kube.read.state import entry_of
from maar.kube.wire.api_resources import CONFIG_MAPS, PODS
from maar.model.selectors import Requirement, Selector
from maar.web.forecasting.keeper import ForecastPace

DEFAULT = "Maar's default configuration (--config): none is published in `kube-system`"
HERE = f"decided here, from what you may read, with {DEFAULT}"
ROOT = Path(__file__).parents[2]
QUESTIONS = (["jobs"], ["queues"], ["nodes"], ["why", "mine/waits"], ["when", "mine/waits"])


@pytest.fixture
def kubeconfig(server: EmbeddedServer, tmp_path: Path) -> Path:
    """Two nodes, and a small one: a gang of each of two namespaces runs, and one of each waits."""
    return filled(server, tmp_path, scene)


async def scene(cluster: Live) -> None:
    await cluster.crds(OUR_CRDS)
    await cluster.nodes(2, gpu=8)
    await cluster.nodes(1, gpu=2, first=2)  # not reserved for the gangs that wait
    await cluster.queue("red")
    for name in (MINE, THEIRS):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await cluster.create("/api/v1/namespaces", body)
    await gang(cluster.api, MINE, "runs", 2, gpu=4, on="n0", queue="red")
    await gang(cluster.api, THEIRS, "runs", 1, gpu=6, on="n1")
    await gang(cluster.api, THEIRS, "waits", 2, gpu=8, queue="red")
    await gang(cluster.api, MINE, "waits", 2, gpu=8, queue="red")


def ok(result: Result) -> str:
    assert 0 == result.exit_code, result.stderr
    return result.stdout


def lines(text: str) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in text.splitlines()]


def test_jobs_are_listed_as_squeue_lists_them(kubeconfig: Path) -> None:
    result = maar("jobs", kubeconfig=kubeconfig)
    head, *rows = lines(ok(result))
    assert ["JOB", "QUEUE", "STATE", "PODS", "GPU", "AGE", "NODES OR WHY"] == head
    found = {row[0]: (*row[1:5], row[6]) for row in rows[:4]}
    assert ("red", "running", "2/2", "8", "n0") == found["mine/runs"]
    assert ("red", "waiting", "0/2", "16", "Unschedulable") == found["mine/waits"]
    assert ["4 jobs: 2 running, 2 waiting"] == rows[-1]
    assert [HERE] == result.stderr.splitlines()


def test_jobs_are_chosen(kubeconfig: Path) -> None:
    def names(*options: str) -> set[str]:
        found = json.loads(ok(maar("jobs", "-o", "json", *options, kubeconfig=kubeconfig)))
        return {f"{job['namespace']}/{job['name']}" for job in found["items"]}

    assert {"mine/runs", "mine/waits"} == names("-n", MINE)
    assert {"mine/waits", f"{THEIRS}/waits"} == names("-s", "waiting")
    assert {f"{THEIRS}/runs"} == names("-q", "default")
    assert set() == names("-s", "invalid")


def test_wide_has_the_whole_reason(kubeconfig: Path) -> None:
    text = ok(maar("jobs", "-o", "wide", kubeconfig=kubeconfig))
    (row,) = [line for line in text.splitlines() if line.startswith("mine/waits")]
    assert "0/3 nodes fit: 3 short of nvidia.com/gpu (needs 8, best has 2 free)" in row


def test_queues_have_amounts_of_the_devices(kubeconfig: Path) -> None:
    head, *rows = lines(ok(maar("queues", kubeconfig=kubeconfig)))
    assert ["QUEUE", "STATE", "WEIGHT", "USED", "DESERVED", "LIMIT", "ASKED", "RUNNING", "WAITING"] == head
    red = next(row for row in rows if row[0] == "red")
    assert ["red", "open", "1", "8", "32", "1", "2"] == [*red[:4], *red[6:]]
    assert ["amounts of nvidia.com/gpu; -o wide shows all resources"] in rows
    cpu = lines(ok(maar("queues", "--resource", "cpu", kubeconfig=kubeconfig)))
    assert "200m" == next(row for row in cpu if row[0] == "red")[3]
    wide = ok(maar("queues", "-o", "wide", kubeconfig=kubeconfig))
    assert {"nvidia.com/gpu", "cpu"} <= set(wide.split())


def test_nodes_have_what_is_used_and_by_whom(kubeconfig: Path) -> None:
    head, *rows = lines(ok(maar("nodes", kubeconfig=kubeconfig)))
    assert ["NODE", "STATE", "GPU", "CPU", "MEMORY", "PODS", "JOBS"] == head
    assert ["n0", "ready", "8/8", "0.2/32", "0/256Gi", "2", "mine/runs"] == rows[0]
    assert ["3 nodes: 3 ready"] == rows[-1]
    assert "no nodes\n" == ok(maar("nodes", "-s", "cordoned", kubeconfig=kubeconfig))


def test_why_names_the_jobs_ahead_and_what_would_start_it(kubeconfig: Path) -> None:
    text = ok(maar("why", "mine/waits", "--seconds", "60", kubeconfig=kubeconfig))
    assert text.startswith("mine/waits waits\n")
    assert "queue     red, place 2 of 2" in text
    assert f"{THEIRS}/waits" in text
    assert "each of these alone would start it" in text
    detail = json.loads(ok(maar("why", "mine/waits", "-o", "json", "--seconds", "0", kubeconfig=kubeconfig)))["detail"]
    assert ("waits", False) == (detail["start"], detail["unblock"]["complete"])


def test_when_spends_no_time_on_changes(kubeconfig: Path) -> None:
    detail = json.loads(ok(maar("when", "mine/waits", "-o", "json", kubeconfig=kubeconfig)))["detail"]
    assert ([], False, 0) == tuple(detail["unblock"][key] for key in ("changes", "complete", "decisions"))


def test_why_of_a_held_job_says_how_to_release_it(kubeconfig: Path) -> None:
    async def held() -> None:
        async with connected(kubeconfig) as cluster:
            await gang(cluster.api, MINE, "small", 1, gpu=1)
            path = volcano_podgroup.KIND.resource.path(MINE, "small")
            await cluster.api.patch(path, {"metadata": {"annotations": {"maar.dev/hold": "true"}}})

    asyncio.run(held())
    text = ok(maar("why", "mine/small", kubeconfig=kubeconfig))
    assert "held by its owner" in text
    assert "release `mine/small`, which its owner holds" in text


def test_a_job_is_found_by_the_name_of_its_object(kubeconfig: Path) -> None:
    """A Job whose pods are alone has a job for each pod."""

    async def pods() -> None:
        async with connected(kubeconfig) as cluster:
            spec = {
                "template": {
                    "spec": {
                        "containers": [{"name": "c", "image": "i"}],
                        "restartPolicy": "Never",
                        "schedulerName": "maar",
                    }
                }
            }
            body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": NAMESPACE}}
            made = json.loads(
                await cluster.api.create(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", {**body, "spec": spec})
            )
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": made["metadata"]["uid"]}
            metadata = {"ownerReferences": [{**owner, "controller": True}]}
            await cluster.pod("j-abc", metadata=metadata)

    asyncio.run(pods())
    assert ok(maar("why", "j", kubeconfig=kubeconfig)).startswith("default/j-abc starts in the next cycle")


def test_without_history_the_answer_is_unknown(kubeconfig: Path) -> None:
    text = ok(maar("when", "mine/waits", kubeconfig=kubeconfig))
    assert "mine/waits waits" == text.splitlines()[0]
    assert "unknown" in text


def test_declared_limits_are_a_forecast(kubeconfig: Path) -> None:
    async def limits() -> None:
        async with connected(kubeconfig) as cluster:
            for namespace, name in ((MINE, "runs"), (THEIRS, "runs"), (THEIRS, "waits"), (MINE, "waits")):
                path = volcano_podgroup.KIND.resource.path(namespace, name)
                await cluster.api.patch(path, {"metadata": {"annotations": {"maar.dev/max-runtime": "1h"}}})

    asyncio.run(limits())
    text = ok(maar("when", "mine/waits", kubeconfig=kubeconfig))
    assert re.search(
        r"starts  by .* UTC \(in .*\) with a chance of 50 %; by .*90 %", " ".join(text.split("\n")), re.DOTALL
    )
    detail = json.loads(ok(maar("when", "mine/waits", "-o", "json", kubeconfig=kubeconfig)))["detail"]
    assert detail["forecast"]["startP50"] < detail["forecast"]["finishP50"]


def with_history(folder: Path) -> str:
    """A history of 20 jobs that ran for two hours, and of 40 forecasts that were kept."""
    file = str(folder / "history.db")
    store = Store(read_address(file))
    assert store.open()
    now = time.time()
    asked = msgspec.json.encode(Asked((Pods(1, ((GPU, 8), ("pods", 1))),))).decode()
    times = {"submitted": now - 4e5, "started": now - 3e5, "ended": now - 2e5, "seconds": 7200.0, "gpus": 8}
    runs = [
        FinishedRun("x", "old", f"u{n}", "x", "old", "default", how="completed", asked=asked, **times)  # type: ignore[arg-type]
        for n in range(20)
    ]
    store.write(runs)
    kept = {"age": 1.0, "first": True, "verdict": "expected", "started": now - 800, "start_p50": now - 860}
    kept |= {"start_p90": now - 700, "shown_p90": now - 700}
    made = [Prediction("x", f"j{n}", f"u{n}", "default", at=now - 1000, **kept) for n in range(40)]  # type: ignore[arg-type]
    store.write_predictions(made, (), 0.0)
    store.close()
    return file


def test_a_forecast_from_a_history_is_made_here(kubeconfig: Path, tmp_path: Path) -> None:
    at = ("--history", with_history(tmp_path))
    result = maar("when", "mine/waits", *at, kubeconfig=kubeconfig)
    assert "by" in ok(result)
    assert "forecast here, from the run times of 20 finished jobs" in result.stderr
    wide = maar("jobs", "-o", "wide", *at, kubeconfig=kubeconfig)
    assert "PLACE  STARTS (P50 TO P90)" in ok(wide)
    assert re.search(r"mine/waits .* \d  in \d+[mh]", wide.stdout)
    none = maar("when", "mine/waits", "--history", str(tmp_path / "none.db"), kubeconfig=kubeconfig)
    assert "unknown" in ok(none)
    assert "none.db: no history, only declared run times count" in none.stderr
    bad = maar("when", "mine/waits", "--history", "mysql://x", kubeconfig=kubeconfig)
    assert 2 == bad.exit_code
    question = "{edit: add-nodes-like, like: n1, count: 4}"
    what = ok(maar("what-if", "-f", "-", *at, given=question, kubeconfig=kubeconfig))
    assert re.search(r"by forecasts, from \d+ roll-outs with jobs that come later", what)
    assert "starts earlier" in what


def test_no_line_is_longer_than_80_columns(kubeconfig: Path, tmp_path: Path) -> None:
    question, long = tmp_path / "what.yaml", "a-name-that-is-much-longer-than-the-column-that-it-stands-in-" + "x" * 30

    async def fill() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.queue(long)
            await gang(cluster.api, MINE, long, 2, gpu=8, queue=long)
            await gang(cluster.api, MINE, f"{long}-2", 1, gpu=1, on="n2", queue=long)

    asyncio.run(fill())
    question.write_text(NEW_JOB)
    for arguments in (*QUESTIONS, ["why", f"mine/{long}"], ["when", f"mine/{long}"], ["what-if", "-f", str(question)]):
        text = ok(maar(*arguments, kubeconfig=kubeconfig))
        assert 80 >= max(map(len, text.splitlines())), arguments


NEW_JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: new, namespace: mine, annotations: {maar.dev/gang: "true"}}
spec:
  parallelism: 2
  template:
    spec: {schedulerName: maar, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (NEW_JOB, ["add job `mine/new` with 2 pods", "starts  mine/new"]),
        ("{edit: end-jobs, jobs: [mine/runs]}", ["end job `mine/runs`"]),
        ("{edit: cordon, nodes: [n1, n2]}\n---\n" + NEW_JOB, ["cordon nodes `n1`, `n2`", "mine/new: 0/3 nodes fit"]),
        ("{edit: set-priority, job: mine/runs, priority: 1}", ["nothing would change in the next plan"]),
    ],
)
def test_what_if_shows_the_difference(kubeconfig: Path, document: str, says: list[str]) -> None:
    before = asyncio.run(versions(kubeconfig))
    text = ok(maar("what-if", "-f", "-", given=document, kubeconfig=kubeconfig))
    for part in says:
        assert part in text
    assert before == asyncio.run(versions(kubeconfig)), "nothing is written"
    assert "the whole plan" not in text
    wide = ok(maar("what-if", "-f", "-", "-o", "wide", "--seconds", "0", given=document, kubeconfig=kubeconfig))
    assert re.search(r"the whole plan with the change\n(  .*\n)*  wait +\d jobs\n$", wide)
    assert ("mine/new: new-" in wide) == ("starts  mine/new" in wide)


async def versions(kubeconfig: Path) -> dict[str, str]:
    async with connected(kubeconfig) as cluster:
        return await cluster.versions()


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("{edit: no-such}", "no-such"),
        ("{edit: cordon, nodes: 5}", "nodes"),
        ("{edit: end-jobs, jobs: [mine/no-such]}", "no such job that you may see"),
        ("5", "expected a manifest or an edit"),
        ("{kind: Pod}", "apiVersion"),
    ],
)
def test_a_bad_question_is_refused(kubeconfig: Path, document: str, problem: str) -> None:
    result = maar("what-if", "-f", "-", given=document, kubeconfig=kubeconfig)
    assert (2, "") == (result.exit_code, result.stdout)
    assert problem in result.stderr


def test_plan_live_adds_manifests_to_the_cluster(kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(NEW_JOB)
    result = maar("plan", "--live", "-f", str(file), "-o", "json", kubeconfig=kubeconfig)
    (cycle,) = json.loads(ok(result))["cycles"]
    assert {"n1"} == set(cycle["bind"].values())
    assert {f"{THEIRS}/waits", "mine/waits"} == {wait["job"] for wait in cycle["waiting"]}
    assert HERE in result.stderr
    assert 2 == maar("plan", "--live", str(file), kubeconfig=kubeconfig).exit_code
    assert 2 == maar("plan", "-f", str(file), kubeconfig=kubeconfig).exit_code


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["why", "mine/no-such"], "`mine/no-such`: no such job that you may see"),
        (["why", "no-such"], "`default/no-such`: no such job that you may see"),
    ],
)
def test_an_unknown_job_is_one_line(kubeconfig: Path, arguments: list[str], problem: str) -> None:
    result = maar(*arguments, kubeconfig=kubeconfig)
    assert (2, "") == (result.exit_code, result.stdout)
    assert problem == result.stderr.splitlines()[-1]


def test_no_cluster_is_one_line(tmp_path: Path) -> None:
    result = maar("jobs", kubeconfig=tmp_path / "missing")
    assert (3, "") == (result.exit_code, result.stdout)
    assert f"kubeconfig not found: `{tmp_path / 'missing'}`" == result.stderr.strip()


# -- a caller who may list only her namespace


def only_mine(method: str, path: str) -> bool:
    """Whether a request is refused to a caller with rights in `mine` alone. Discovery is for everyone."""
    parts = path.strip("/").split("/")
    inner = parts[2:] if parts[0] == "api" else parts[3:]
    return bool(inner) and inner[:2] != ["namespaces", MINE]


@pytest.fixture
def restricted(kubeconfig: Path, server: EmbeddedServer) -> Path:
    """A caller with rights in `mine` alone; the scheduler has told her job why it waits."""

    async def told() -> None:
        async with connected(kubeconfig) as cluster:
            waits = {"type": "PodScheduled", "status": "False", "reason": "QueueLimit", "message": "its queue is full"}
            await cluster.api.patch(PODS.path(MINE, "waits-0", "status"), {"status": {"conditions": [waits]}})

    asyncio.run(told())
    server.faults.fail_codes, server.faults.fails, server.faults.fail_share = (403,), only_mine, 1.0
    return kubeconfig


def test_who_sees_only_her_namespace_gets_what_the_scheduler_wrote(restricted: Path) -> None:
    result = maar("jobs", "-n", MINE, "-o", "json", kubeconfig=restricted)
    jobs = {job["name"]: job for job in json.loads(ok(result))["items"]}
    assert {"runs", "waits"} == set(jobs)
    assert ("waiting", "QueueLimit", "its queue is full") == tuple(
        jobs["waits"][k] for k in ("state", "condition", "why")
    )
    assert "running" == jobs["runs"]["state"]
    (note,) = result.stderr.splitlines()
    assert note.startswith("not decided here, reasons are those that the scheduler wrote: you may not list nodes, ")
    assert "pods outside mine" in note
    why = ok(maar("why", "mine/waits", "-n", MINE, kubeconfig=restricted))
    assert "its queue is full" in why
    assert "would start it" not in why, "nothing was tried"
    when = ok(maar("when", "mine/waits", "-n", MINE, kubeconfig=restricted))
    assert "unknown: you may not list all nodes and pods" in when


@pytest.mark.parametrize("arguments", [["what-if", "-f", "-"], ["plan", "--live"]])
def test_what_needs_a_decision_says_what_is_missing(restricted: Path, arguments: list[str]) -> None:
    result = maar(*arguments, given=NEW_JOB, kubeconfig=restricted)
    assert (3, "") == (result.exit_code, result.stdout)
    assert "nothing can be decided here: you may not list nodes" in result.stderr


# -- with `maar web`


def told(tmp_path: Path, story: Callable[[Web, Path], Awaitable[None]], user: str, **options: Any) -> None:
    """A story with `maar web`, and the kubeconfig of one of its users."""

    async def run() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path, **options) as web:
            await web.gang(MINE, "runs", 2, gpu=4, on="n0")
            await web.gang(THEIRS, "aq7waits", 2, gpu=8)
            await web.gang(MINE, "waits", 2, gpu=8)
            while len(web.mirror.moment.tally.snapshot.tasks) < 6:  # type: ignore[union-attr]
                await web.settled()
            client = await web.as_user(user)
            token = client.headers["Authorization"].removeprefix("Bearer ")
            await story(web, with_user(tmp_path, {"token": token}))

    asyncio.run(run())


def with_user(tmp_path: Path, user: dict[str, Any]) -> Path:
    """The kubeconfig of the cluster, with another user."""
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    config["users"] = [{"name": config["contexts"][0]["context"].get("user", "u"), "user": user}]
    config["contexts"][0]["context"]["user"] = config["users"][0]["name"]
    path = tmp_path / "as-user"
    path.write_text(yaml.safe_dump(config))
    return path


async def ask(web: Web, kubeconfig: Path, *arguments: str, **more: Any) -> Result:
    return await asyncio.to_thread(lambda: maar(*arguments, "--server", web.base, kubeconfig=kubeconfig, **more))


def test_maar_web_answers_with_its_own_view(tmp_path: Path) -> None:
    async def story(web: Web, kubeconfig: Path) -> None:
        result = await ask(web, kubeconfig, "jobs")
        rows = {row[0] for row in lines(ok(result))}
        assert {"mine/runs", "mine/waits", f"{THEIRS}/aq7waits"} <= rows
        assert "" == result.stderr, "nothing is decided here"
        assert "n0" in ok(await ask(web, kubeconfig, "nodes"))
        assert "default" in ok(await ask(web, kubeconfig, "queues"))
        why = ok(await ask(web, kubeconfig, "why", "mine/waits", "--seconds", "5"))
        assert why.startswith("mine/waits waits")
        assert f"{THEIRS}/aq7waits" in why
        assert "story" not in why
        wide = ok(await ask(web, kubeconfig, "why", "mine/waits", "-o", "wide", "--seconds", "0"))
        assert re.search(r"\nstory\n─+\n\d{4}-\d\d-\d\d \S+Z +Created +created\n$", wide)
        assert "unknown" in ok(await ask(web, kubeconfig, "when", "mine/waits"))
        assert "starts  mine/new" in ok(await ask(web, kubeconfig, "what-if", "-f", "-", given=NEW_JOB))
        data = json.loads(ok(await ask(web, kubeconfig, "jobs", "-o", "json")))
        assert (web.base, 3) == (data["source"], data["total"])

    told(tmp_path, story, ADMIN)


def test_the_forecasts_of_maar_web_are_shown(tmp_path: Path) -> None:
    async def story(web: Web, kubeconfig: Path) -> None:
        async def trusted() -> str:
            text = ok(await ask(web, kubeconfig, "when", "mine/waits"))
            return text if "trust" in text else ""

        text = await until(trusted, "a forecast and how far to trust it")
        said = " ".join(text.split())
        assert re.search(r"starts by .* with a chance of 50 %; by .* with a chance of 90 %", said)
        assert "4 roll-outs with jobs that come later" in said
        assert "trust 100% of 40 jobs of its queue started by the second time" in said
        assert "the median error of the first time was 1 min" in said
        assert 80 >= max(map(len, text.splitlines()))
        wide = ok(await ask(web, kubeconfig, "jobs", "-o", "wide"))
        assert re.search(r"mine/waits .* 2  in \d+[mh]", wide)
        what = ok(await ask(web, kubeconfig, "what-if", "-f", "-", given="{edit: add-nodes-like, like: n0, count: 4}"))
        assert re.search(
            r"by forecasts, from \d roll-outs with jobs that come later\s+starts earlier  .*mine/waits: by",
            what,
            re.DOTALL,
        )

    pace = ForecastPace(every=0.5, soon=0.05, budget=20.0, rollouts=4)
    told(tmp_path, story, ADMIN, history=with_history(tmp_path), pace=pace)


def test_maar_web_shows_a_user_only_what_she_may_see(tmp_path: Path) -> None:
    async def story(web: Web, kubeconfig: Path) -> None:
        for arguments in QUESTIONS:
            assert "aq7" not in ok(await ask(web, kubeconfig, *arguments))
        assert "and 1 job that you may not see" in ok(await ask(web, kubeconfig, "jobs"))
        assert "another job" in ok(await ask(web, kubeconfig, "why", "mine/waits"))
        hidden = await ask(web, kubeconfig, "why", f"{THEIRS}/aq7waits")
        assert (2, "") == (hidden.exit_code, hidden.stdout)
        assert "no such job that you may see" in hidden.stderr
        edit = tmp_path / "edit.yaml"
        edit.write_text(f"{{edit: end-jobs, jobs: [{THEIRS}/aq7waits]}}")
        wrong = await ask(web, kubeconfig, "what-if", "-f", str(edit))
        assert (2, "") == (wrong.exit_code, wrong.stdout), "as without a server"
        assert "no such job that you may see" in wrong.stderr

    told(tmp_path, story, USER)


def test_a_token_may_come_from_an_exec_plugin(tmp_path: Path) -> None:
    async def story(web: Web, kubeconfig: Path) -> None:
        token = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
        credential = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"token": token},
        }
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [json.dumps(credential)],
                  "interactiveMode": "Never"}  # fmt: skip
        text = ok(await ask(web, with_user(tmp_path, {"exec": plugin}), "jobs"))
        assert "mine/runs" in text

    told(tmp_path, story, USER)


def test_a_bad_token_and_a_certificate_are_told(tmp_path: Path) -> None:
    async def story(web: Web, kubeconfig: Path) -> None:
        bad = await ask(web, with_user(tmp_path, {"token": "no"}), "jobs")
        assert (3, "") == (bad.exit_code, bad.stdout)
        assert "401" in bad.stderr or "token" in bad.stderr
        none = await ask(web, with_user(tmp_path, {"username": "u", "password": "p"}), "jobs")
        assert 3 == none.exit_code
        assert f"{web.base} asks for a bearer token, and the kubeconfig has none" in none.stderr

    told(tmp_path, story, USER)


def test_a_server_that_asks_for_no_token_is_asked_without_one(tmp_path: Path) -> None:
    """As the page of a demo: with a kubeconfig that has no token, and without any kubeconfig."""

    async def story(web: Web, kubeconfig: Path) -> None:
        without = with_user(tmp_path, {"username": "u", "password": "p"})
        assert "n0" in ok(await ask(web, without, "nodes"))
        for arguments in (["jobs"], ["queues"], ["nodes"], ["what-if", "-f", "-"]):
            ok(await asyncio.to_thread(partial(nowhere, *arguments, "--server", web.base)))

    def nowhere(*arguments: str) -> Result:
        env = {"HOME": str(tmp_path / "nowhere"), "KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": ""}
        return CliRunner().invoke(main, arguments, input="{edit: cordon, nodes: [n0]}", env=env, catch_exceptions=False)

    told(tmp_path, story, ADMIN, anonymous=True)


OTHER_ORDER = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - {name: priority}
  - {name: gang}
  - {name: predicates}
"""


def publish(kubeconfig: Path, text: str, brakes: Brakes | None = None, **settings: Any) -> None:
    """What a Maar with this configuration publishes."""

    async def write() -> None:
        async with connected(kubeconfig) as cluster:
            file = kubeconfig.parent / "running.yaml"
            file.write_text(text)
            publisher = Publisher(cluster.api, ConfigFile(file), Settings(**settings), brakes=brakes or Brakes())
            running = asyncio.create_task(publisher.run())
            entry = entry_of(Settings(**settings).scheduler_names)

            async def is_there() -> bool:
                return entry in (await cluster.get(CONFIGURATION_PATH))["data"]

            await cluster.eventually(is_there, "it is published")
            running.cancel()

    asyncio.run(write())


CONFIGURATION_PATH = CONFIG_MAPS.path("kube-system", "maar-configuration")


def test_commands_decide_with_the_configuration_of_the_running_maar(kubeconfig: Path) -> None:
    """Without `proportion`, nothing is said about shares; the default configuration says more."""
    file = kubeconfig.parent / "same.yaml"
    file.write_text(OTHER_ORDER)
    default = json.loads(ok(maar("queues", "-o", "json", kubeconfig=kubeconfig)))["items"]
    stated = json.loads(ok(maar("queues", "-o", "json", "--config", str(file), kubeconfig=kubeconfig)))["items"]
    assert default != stated
    publish(kubeconfig, OTHER_ORDER)
    result = maar("queues", "-o", "json", kubeconfig=kubeconfig)
    assert stated == json.loads(ok(result))["items"]
    (note,) = json.loads(result.stdout)["notes"]
    running = r"decided here, from what you may read, with the configuration of the running Maar, in use since \S+ \S+Z"
    assert re.fullmatch(running, note)
    assert [note] == result.stderr.splitlines()
    for arguments in (*QUESTIONS, ["plan", "--live"]):
        assert note in maar(*arguments, kubeconfig=kubeconfig).stderr.splitlines(), arguments
    result = maar("queues", "-o", "json", "--config", str(file), kubeconfig=kubeconfig)
    assert f"with `{file}`" in result.stderr


def test_commands_decide_within_the_brakes_of_the_running_maar(kubeconfig: Path) -> None:
    async def preemptor() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.priority("high", 1000)
            pod = {"schedulerName": "maar", "priorityClassName": "high"}
            limits = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
            spec = {**pod, "containers": [{"name": "c", "image": "train", **limits}]}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent"}, "spec": spec}
            await cluster.api.create(PODS.path(MINE), body)

    asyncio.run(preemptor())
    evicted = json.loads(ok(maar("plan", "--live", "-o", "json", kubeconfig=kubeconfig)))["cycles"][0]["evict"]
    assert evicted
    publish(kubeconfig, default_text(), Brakes(BrakeSettings(queues_off=("red", "default"))))
    result = maar("plan", "--live", "-o", "json", kubeconfig=kubeconfig)
    assert [] == json.loads(ok(result))["cycles"][0]["evict"]
    assert "Z, and its brakes" in result.stderr
    said = ok(maar("why", f"{MINE}/urgent", kubeconfig=kubeconfig))
    assert re.search(r"evictions from queue `\w+` are off", said)
    jobs = json.loads(ok(maar("jobs", "-o", "json", kubeconfig=kubeconfig)))["items"]
    assert [True] == ["are off" in str(job["why"]) for job in jobs if job["name"] == "urgent"]


def test_a_maar_of_another_name_and_its_nodes_are_found(kubeconfig: Path) -> None:
    nothing = Selector((Requirement("pool", "In", ("none",)),))
    publish(kubeconfig, OTHER_ORDER, scheduler_names=frozenset({"other", "volcano"}), node_selector=nothing)
    missing = maar("nodes", kubeconfig=kubeconfig)
    assert "none is published in `kube-system` for scheduler name `maar`" in missing.stderr
    assert "n0" in ok(missing)
    found = maar("nodes", "--scheduler-name", "volcano", kubeconfig=kubeconfig)
    assert "with the configuration of the running Maar" in found.stderr
    assert "no nodes" in ok(found), "none has the label that this Maar asks for"


def test_a_published_configuration_that_cannot_be_used_is_a_warning(kubeconfig: Path) -> None:
    async def spoil() -> None:
        async with connected(kubeconfig) as cluster:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "maar-configuration"}}
            text = "scheduler-names: [maar]\nconfiguration: {actions: [{name: alocat}], tiers: []}\n"
            await cluster.api.create(CONFIG_MAPS.path("kube-system"), {**body, "data": {"maar": text}})

    asyncio.run(spoil())
    result = maar("jobs", kubeconfig=kubeconfig)
    ok(result)
    warning, note = result.stderr.splitlines()
    assert warning.startswith("warning: ConfigMap with the configuration of the running Maar: unknown action `alocat`")
    assert "default configuration (--config): that of ConfigMap `kube-system/maar-configuration` cannot be used" in note


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://maar.example.com", "a token is sent over https, or to this machine"),
        ("maar.example.com", "expected `aggregated`, or a URL such as `https://maar.example.com`"),
        ("ftp://maar.example.com", "or a URL such as"),
    ],
)
def test_tokens_go_over_tls_or_nowhere(kubeconfig: Path, url: str, problem: str) -> None:
    for how in ({"MAAR_SERVER": url}, {}):
        result = maar("jobs", *([] if how else ["--server", url]), kubeconfig=kubeconfig, **how)
        assert (3, "") == (result.exit_code, result.stdout)
        assert problem in result.stderr


def test_another_server_is_no_maar_web(kubeconfig: Path) -> None:
    """An API server has `/api/v1/nodes` too."""
    server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    with_token = with_user(kubeconfig.parent, {"token": "x"})
    for command in ("jobs", "nodes"):
        result = maar(command, "--server", server, kubeconfig=with_token)
        assert (3, "") == (result.exit_code, result.stdout)
        assert "not `maar web`" in result.stderr
        result = maar(command, "--server", "aggregated", kubeconfig=kubeconfig)
        assert (3, "") == (result.exit_code, result.stdout)
        assert "no aggregated API of `maar web`" in result.stderr


def test_it_is_a_plugin_of_kubectl() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["kubectl-maar"].partition(":")
    code = f"import sys; sys.argv = ['kubectl-maar', 'jobs', '--help']; from {module} import {function}; {function}()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("Usage: kubectl maar jobs [OPTIONS]"), done.stderr


def test_watch_shows_it_again_until_it_is_interrupted(kubeconfig: Path) -> None:
    command = [sys.executable, "-m", "maar.cli.main", "jobs", "--watch", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert any("4 jobs" in line for line in child.stdout)

        async def more() -> None:
            async with connected(kubeconfig) as cluster:
                await gang(cluster.api, MINE, "late", 1)

        asyncio.run(more())
        assert any("5 jobs" in line for line in child.stdout)
        child.send_signal(signal.SIGINT)
        assert 130 == child.wait(30)
