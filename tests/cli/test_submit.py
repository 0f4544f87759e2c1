"""`maar submit`, `hold`, `release`, `set` and `cancel` on the embedded server, with its training operator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.commands import filled, maar
from tests.support.elastic_story import CONFIG
from tests.support.live import NAMESPACE, OUR_CRDS, Live, connected, scheduling

from maar.embedded.parts.collector import Collector
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.parts.operators import TrainingOperator
from maar.embedded.server import EmbeddedServer
from maar.kube.client.errors import NotFound
from maar.kube.wire.api_resources import PRIORITY_CLASSES, QUEUES

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
    async def fill(cluster: Live) -> None:
        await cluster.crds(OUR_CRDS)
        await cluster.nodes(1, gpu=8)

    return filled(server, tmp_path, fill)


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


async def _furnish(kubeconfig: Path) -> None:
    """Queues and a priority class."""
    async with connected(kubeconfig) as cluster:
        for name, notes in (
            ("research", {}),
            ("shut", {}),
            ("club", {"maar.dev/namespaces": "elsewhere"}),
            ("plain", {"maar.dev/priority-classes": "low"}),
        ):
            metadata = {"name": name, "annotations": notes}
            body = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": metadata, "spec": {}}
            await cluster.api.create(QUEUES.path(), body)
        await cluster.api.patch(f"{QUEUES.path(name='shut')}/status", {"status": {"state": "Closed"}})
        classes = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": PRIORITY_CLASSES.kind}
        await cluster.api.create(PRIORITY_CLASSES.path(), {**classes, "metadata": {"name": "high"}, "value": 1000})


@pytest.fixture
def furnished(kubeconfig: Path) -> Path:
    asyncio.run(_furnish(kubeconfig))
    return kubeconfig


def train(policy: str = "", pods: str = "", **notes: str) -> str:
    """The manifest of a job with a scheduling policy, more in its pods, or annotations."""
    made = TRAIN.replace("spec:\n", f"spec:\n  runPolicy: {{schedulingPolicy: {{{policy}}}}}\n", 1) if policy else TRAIN
    made = made.replace("spec: {containers", f"spec: {{{pods}, containers") if pods else made
    said = ", ".join(f"maar.dev/{key.replace('_', '-')}: {json.dumps(value)}" for key, value in notes.items())
    return made.replace("{name: train}", f"{{name: train, annotations: {{{said}}}}}") if notes else made


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        (
            train("queue: researc"),
            "document 1: spec.runPolicy.schedulingPolicy.queue: unknown queue `researc`; did you mean `research`? "
            "known: default, plain, research, shut",
        ),
        (train("queue: shut"), "queue `shut` is closed: it takes no jobs; open: default, plain, research"),
        (
            train("queue: club"),
            "queue `club` accepts no jobs of namespace `default`; it may use: default, plain, research, shut",
        ),
        (
            train("queue: plain, priorityClass: high"),
            "schedulingPolicy.priorityClass: queue `plain` does not accept priority class `high`; it accepts: low",
        ),
        (
            train("priorityClass: higg"),
            "document 1: spec.runPolicy.schedulingPolicy.priorityClass: unknown priority class `higg`; "
            "did you mean `high`? known: high, system-cluster-critical, system-node-critical",
        ),
        (
            train(pods="priorityClassName: hig"),
            "Worker.template.spec.priorityClassName: unknown priority class `hig`; did you mean `high`?",
        ),
        (
            train(max_runtime="soon"),
            "document 1: metadata.annotations.maar.dev/max-runtime: not a duration: `soon` (expected e.g. `90s`",
        ),
    ],
)
def test_names_and_values_that_maar_cannot_use_are_refused(furnished: Path, manifest: str, problem: str) -> None:
    result = maar("submit", "-f", "-", kubeconfig=furnished, given=manifest)
    assert (2, "") == (result.exit_code, result.stdout), result.stderr
    assert problem in result.stderr
    assert {} == there(furnished)


def test_one_wrong_queue_among_several_manifests_creates_nothing(furnished: Path) -> None:
    second = train("queue: researc").replace("name: train", "name: second")
    result = maar("submit", "-f", "-", kubeconfig=furnished, given=f"{TRAIN}---{second}")
    assert (2, "") == (result.exit_code, result.stdout)
    assert "document 2: spec.runPolicy.schedulingPolicy.queue: unknown queue" in result.stderr
    assert {} == there(furnished)


def as_user(server: EmbeddedServer, kubeconfig: Path) -> Path:
    """A kubeconfig with the token of a ServiceAccount, whose requests `permits` may refuse."""

    async def token() -> str:
        async with connected(kubeconfig) as cluster:
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "user"}}
            await cluster.api.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/user/token"
            made: str = json.loads(await cluster.api.create(path, body))["status"]["token"]
            return made

    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"] = {"token": asyncio.run(token())}
    path = kubeconfig.parent / "user-kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def test_what_may_not_be_listed_is_noted_and_nothing_is_refused(furnished: Path, server: EmbeddedServer) -> None:
    server.handler.permits = lambda user, method, path: not path.endswith(("/queues", "/priorityclasses"))
    config = as_user(server, furnished)
    result = maar("submit", "-f", "-", kubeconfig=config, given=train("queue: researc, priorityClass: higg"))
    assert 0 == result.exit_code, result.stderr
    assert "queue `researc` was not checked: you may not list queues" in result.stderr
    assert "priority class `higg` was not checked: you may not list priority classes" in result.stderr
    result = maar("set", "train", "--queue", "other", "--priority-class", "x", kubeconfig=config)
    assert 0 == result.exit_code, result.stderr
    assert "queue `other` was not checked: you may not list queues" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--queue", "researc"], "queue: unknown queue `researc`; did you mean `research`? known:"),
        (["--queue", "shut"], "queue: queue `shut` is closed"),
        (["--queue", "club"], "queue: queue `club` accepts no jobs of namespace `default`"),
        (["--priority-class", "higg"], "priorityClass: unknown priority class `higg`; did you mean `high`?"),
        (["--min-workers", "9"], "expected at least the minimum of 9"),
    ],
)
def test_a_change_that_maar_cannot_use_is_refused(furnished: Path, arguments: list[str], problem: str) -> None:
    said("submit", "-f", "-", kubeconfig=furnished, given=TRAIN)
    before = there(furnished)
    result = maar("set", "train", *arguments, kubeconfig=furnished)
    assert (2, "") == (result.exit_code, result.stdout)
    assert problem in result.stderr
    assert before == there(furnished)


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
    assert [
        f"PyTorchJob {NAMESPACE}/train changed",
        "  queue: `default`, as before",
        "  priority class: `system-node-critical`, priority 2000001000, before 0",
        "  workers: 1 to 3, before 1 to 4",
    ] == said("set", "train", *changes, kubeconfig=kubeconfig)
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


def test_a_change_of_a_running_job_says_what_changes_and_what_does_not(furnished: Path) -> None:
    group = GROUP.replace("{minMember: 2}", "{minMember: 2, queue: default}")

    async def story() -> None:
        async def run(*arguments: str, given: str | None = None) -> list[str]:
            return await asyncio.to_thread(lambda: said(*arguments, kubeconfig=furnished, given=given))

        async def both_run() -> bool:
            return 2 == sum(bool(pod.node) for pod in await cluster.pods())

        async with connected(furnished) as cluster, scheduling(cluster):
            await run("submit", "-f", "-", given=group)
            await cluster.eventually(both_run, "the gang runs")
            assert [
                f"PodGroup {NAMESPACE}/pair changed",
                "  queue: `research`, before `default`",
                "  priority class: `high`, priority 1000, before 0",
                "  it runs: its 2 pods go on, and count for queue `research` from now on",
                "  it runs: Maar counts it with priority 1000 from now on; "
                "its pods keep the priority that they were created with",
            ] == await run("set", "pair", "--queue", "research", "--priority-class", "high")
            assert [
                f"PodGroup {NAMESPACE}/pair held",
                "  it runs, and goes on: it is held when it stops; `--stop` stops it",
            ] == await run("hold", "pair")

    asyncio.run(story())


def test_a_change_without_an_effect_is_refused(furnished: Path) -> None:
    """A PodGroup states the queue of these pods: the annotation on one of them would change nothing."""
    said("submit", "-f", "-", kubeconfig=furnished, given=GROUP)
    result = maar("set", "pair-0", "--queue", "research", kubeconfig=furnished)
    assert (2, "") == (result.exit_code, result.stdout)
    no_effect = (
        "queue: no effect, it stays `default`: its PodGroup `pair` states it; cancel the job and submit it again"
    )
    assert no_effect in result.stderr
    assert "annotations" in there(furnished, f"/api/v1/namespaces/{NAMESPACE}/pods/pair-0")["metadata"]
    assert "research" not in json.dumps(there(furnished, f"/api/v1/namespaces/{NAMESPACE}/pods/pair-0"))


def test_a_job_that_has_ended_is_not_changed(furnished: Path) -> None:
    said("submit", "-f", "-", kubeconfig=furnished, given=TRAIN)

    async def end() -> None:
        async with connected(furnished) as cluster:
            done = {"conditions": [{"type": "Succeeded", "status": "True"}]}
            await cluster.api.patch(f"{PATH}/status", {"status": done})

    asyncio.run(end())
    for arguments in (["set", "train", "--queue", "research"], ["hold", "train"]):
        result = maar(*arguments, kubeconfig=furnished)
        assert (2, "") == (result.exit_code, result.stdout)
        assert f"`{NAMESPACE}/train` has completed: no change has an effect; submit it again" in result.stderr
