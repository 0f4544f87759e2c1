"""`maar submit`, `hold`, `release`, `set` and `cancel` on the embedded server, with its training operator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.elastic_story import CONFIG
from tests.support.live import NAMESPACE, OUR_CRDS, connected, scheduling

from maar.cli.main import main
from maar.embedded.parts.collector import Collector
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.parts.operators import TrainingOperator
from maar.embedded.server import EmbeddedServer
from maar.kube.client.errors import NotFound

TRAIN = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  elasticPolicy: {minReplicas: 1, maxReplicas: 4}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec: {containers: [{name: pytorch, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
PATH = f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/pytorchjobs/train"
GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: pair}
spec: {minMember: 2}
""" + "".join(
    f"""
---
apiVersion: v1
kind: Pod
metadata: {{name: pair-{i}, annotations: {{scheduling.k8s.io/group-name: pair}}}}
spec: {{containers: [{{name: c, image: train}}]}}
"""
    for i in range(2)
)


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    made = EmbeddedServer(parts=[Kubelets(start=0.01, stop=0.01), TrainingOperator(0.0), Collector()])
    made.start()
    yield made
    made.stop()


@pytest.fixture
def kubeconfig(server: EmbeddedServer, tmp_path: Path) -> Path:
    path = server.kubeconfig(tmp_path / "kubeconfig")

    async def fill() -> None:
        async with connected(path) as cluster:
            await cluster.crds(OUR_CRDS)
            await cluster.nodes(1, gpu=8)

    asyncio.run(fill())
    return path


def maar(*arguments: str, kubeconfig: Path, given: str | None = None) -> Result:
    args = [*arguments, "--kubeconfig", str(kubeconfig)]
    return CliRunner().invoke(main, args, input=given, catch_exceptions=False)


def said(*arguments: str, kubeconfig: Path, given: str | None = None) -> list[str]:
    result = maar(*arguments, kubeconfig=kubeconfig, given=given)
    assert 0 == result.exit_code, result.stderr
    lines: list[str] = result.stdout.splitlines()
    return lines


def there(kubeconfig: Path, path: str = PATH) -> dict[str, Any]:
    async def get() -> dict[str, Any]:
        async with connected(kubeconfig) as cluster:
            try:
                return await cluster.get(path)
            except NotFound:
                return {}

    return asyncio.run(get())


def test_a_submitted_job_is_completed_and_created(kubeconfig: Path) -> None:
    template = "spec.pytorchReplicaSpecs.Worker.template.spec.schedulerName: maar"
    lines = said("submit", "-f", "-", kubeconfig=kubeconfig, given=TRAIN)
    assert [f"PyTorchJob {NAMESPACE}/train created", f"  {template}", "  spec.runPolicy.suspend: true"] == lines
    spec = there(kubeconfig)["spec"]
    assert spec["runPolicy"]["suspend"]
    assert "maar" == spec["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["schedulerName"]


def test_a_dry_run_creates_nothing(kubeconfig: Path) -> None:
    data = json.loads(
        "\n".join(said("submit", "--dry-run", "-o", "json", "-f", "-", kubeconfig=kubeconfig, given=TRAIN))
    )
    assert (True, "train") == (data["dryRun"], data["created"][0]["name"])
    assert {} == there(kubeconfig)


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        (
            TRAIN.replace("replicas: 2", "replicas: two"),
            "document 1: spec.pytorchReplicaSpecs.Worker.replicas: expected",
        ),
        (TRAIN.replace("PyTorchJob", "PytorchJob"), "document 1: kind: `PytorchJob` of `kubeflow.org/v1` is no job"),
        (TRAIN + "---\n{apiVersion: v1, kind: Service, metadata: {name: s}}", "document 2: kind: `Service`"),
        ("", "no job was found"),
        ("a: [", "not YAML"),
    ],
)
def test_nothing_is_created_if_a_manifest_is_wrong(kubeconfig: Path, manifest: str, problem: str) -> None:
    result = maar("submit", "-f", "-", kubeconfig=kubeconfig, given=manifest)
    assert (2, "") == (result.exit_code, result.stdout)
    assert problem in result.stderr
    assert {} == there(kubeconfig)


def test_what_the_server_refuses_is_told_with_what_was_created(kubeconfig: Path) -> None:
    said("submit", "-f", "-", kubeconfig=kubeconfig, given=TRAIN)
    result = maar("submit", "-f", "-", kubeconfig=kubeconfig, given=f"{GROUP}---{TRAIN}")
    assert (3, "") == (result.exit_code, result.stdout)
    assert f"created before that: PodGroup {NAMESPACE}/pair, Pod {NAMESPACE}/pair-0" in result.stderr


def test_hold_set_release_and_cancel(kubeconfig: Path) -> None:
    said("submit", "-f", "-", kubeconfig=kubeconfig, given=TRAIN)
    assert [f"PyTorchJob {NAMESPACE}/train held"] == said("hold", "train", kubeconfig=kubeconfig)
    assert "true" == there(kubeconfig)["metadata"]["annotations"]["maar.dev/hold"]
    said("hold", f"{NAMESPACE}/train", "--stop", kubeconfig=kubeconfig)
    assert "stop" == there(kubeconfig)["metadata"]["annotations"]["maar.dev/hold"]
    changes = ["--max-workers", "3", "--queue", "default", "--priority-class", "system-node-critical"]
    assert [f"PyTorchJob {NAMESPACE}/train changed"] == said("set", "train", *changes, kubeconfig=kubeconfig)
    after = there(kubeconfig)
    assert "3" == after["metadata"]["annotations"]["maar.dev/max-workers"]
    policy = after["spec"]["runPolicy"]["schedulingPolicy"]
    assert {"queue": "default", "priorityClass": "system-node-critical"} == policy
    assert [f"PyTorchJob {NAMESPACE}/train released"] == said("release", "train", kubeconfig=kubeconfig)
    assert "maar.dev/hold" not in there(kubeconfig)["metadata"]["annotations"]
    assert [f"PyTorchJob {NAMESPACE}/train deleted"] == said("cancel", "train", kubeconfig=kubeconfig)
    assert {} == there(kubeconfig)


def test_a_group_is_cancelled_with_its_pods(kubeconfig: Path) -> None:
    said("submit", "-f", "-", kubeconfig=kubeconfig, given=GROUP)
    result = maar("hold", "pair", "--stop", kubeconfig=kubeconfig)
    assert "warning: a PodGroup cannot be suspended; if it runs, it goes on until it is cancelled" in result.stderr
    lines = said("cancel", "pair", kubeconfig=kubeconfig)
    assert [f"PodGroup {NAMESPACE}/pair deleted", *(f"Pod {NAMESPACE}/pair-{i} deleted" for i in range(2))] == lines


def test_pods_that_are_a_group_are_held_and_cancelled_together(kubeconfig: Path) -> None:
    pods = GROUP.partition("---")[2].replace("scheduling.k8s.io/group-name: pair", "pod_group: pair")
    said("submit", "-f", "-", kubeconfig=kubeconfig, given=pods)
    both = [f"Pod {NAMESPACE}/pair-{i}" for i in range(2)]
    assert [f"{pod} held" for pod in both] == said("hold", "pair", kubeconfig=kubeconfig)
    assert [f"{pod} deleted" for pod in both] == said("cancel", "pair", kubeconfig=kubeconfig)


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["hold", "no-such"], 2, "no job `default/no-such` was found"),
        (["set", "pair", "--priority-class", ""], 2, "priorityClass: expected a name"),
        (["set", "pair", "--max-workers", "3"], 2, "maxWorkers: the size of a PodGroup does not change"),
        (["set", "pair-0", "--priority-class", "high"], 2, "the priority of a pod cannot change"),
        (["set", "pair"], 2, "expected --queue"),
        (["hold", "pair", "--kind", "PyTorchJob"], 2, "no job `default/pair` was found"),
    ],
)
def test_what_cannot_be_done_is_told(kubeconfig: Path, arguments: list[str], code: int, problem: str) -> None:
    said("submit", "-f", "-", kubeconfig=kubeconfig, given=GROUP)
    result = maar(*arguments, kubeconfig=kubeconfig)
    assert (code, "") == (result.exit_code, result.stdout)
    assert problem in result.stderr


def test_two_objects_of_one_name_need_a_kind(kubeconfig: Path) -> None:
    said("submit", "-f", "-", kubeconfig=kubeconfig, given=TRAIN)
    group = GROUP.partition("---")[0].replace("pair", "train")
    said("submit", "-f", "-", kubeconfig=kubeconfig, given=group)
    result = maar("cancel", "train", kubeconfig=kubeconfig)
    assert (2, "") == (result.exit_code, result.stdout)
    assert "name the kind: PodGroup, PyTorchJob" in result.stderr
    assert [f"PyTorchJob {NAMESPACE}/train deleted"] == said(
        "cancel", "train", "--kind", "pytorchjob", kubeconfig=kubeconfig
    )


def test_a_right_that_is_missing_is_named_and_nothing_is_written(kubeconfig: Path, server: EmbeddedServer) -> None:
    server.faults.fail_codes, server.faults.fail_share = (403,), 1.0
    result = maar("submit", "-f", "-", kubeconfig=kubeconfig, given=TRAIN)
    assert (3, "") == (result.exit_code, result.stdout)
    server.faults.clear()
    assert {} == there(kubeconfig)


def test_a_submitted_job_is_started_by_maar(kubeconfig: Path) -> None:
    """From `maar submit` to running workers, and from `maar hold --stop` to none."""

    async def story() -> None:
        file = kubeconfig.parent / "maar.yaml"
        file.write_text(CONFIG)

        async def size(wanted: int) -> bool:
            pods = [pod for pod in await cluster.pods() if pod.node and not pod.leaving]
            return len(pods) == wanted

        async def run(*arguments: str, given: str | None = None) -> None:
            await asyncio.to_thread(lambda: said(*arguments, kubeconfig=kubeconfig, given=given))

        async with connected(kubeconfig) as cluster, scheduling(cluster, config=file):
            await run("submit", "-f", "-", given=TRAIN)
            await cluster.eventually(lambda: size(4), "it has all the workers that it can use")
            await run("set", "train", "--max-workers", "2")
            await cluster.eventually(lambda: size(2), "it is resized")
            await run("hold", "train", "--stop")
            await cluster.eventually(lambda: size(0), "it is stopped")
            await run("release", "train")
            await cluster.eventually(lambda: size(2), "it runs again")
            await run("cancel", "train")
            await cluster.eventually(lambda: size(0), "it is gone")

    asyncio.run(story())
