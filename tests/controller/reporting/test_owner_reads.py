"""The owner of a waiting job reads why on the object that she submitted, whatever its kind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.support.crds import serve
from tests.support.live import EVENTS_PATH, GPU, NAMESPACE, OUR_CRDS, Live, connected, scheduling

from maar.controller.reporting.old_notes import AFTER
from maar.controller.settings.settings import Settings
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.server import EmbeddedServer
from maar.kube.kinds import (
    JOB_KINDS,
    SOURCES,
    AnyJobKind,
    kind_named,
    upstream_podgroup,
)
from maar.kube.kinds.kind import Inner, PodGroupKind
from maar.kube.kinds.kubeflow import mpijob
from maar.kube.wire.annotations import WHY
from maar.kube.wire.api_resources import PODS, Resource
from maar.kube.wire.base import Metadata
from maar.kube.wire.pods import Pod
from maar.kube.write.events import PER_OBJECT

Json = dict[str, Any]
NEVER = "never on today's nodes: 1 pod needs 64 nvidia.com/gpu"
NEVER_IN_POOL = "never in pool `default` as it is: 1 pod needs 64 nvidia.com/gpu"
ELASTIC = "elastic"
LARGE = 64
"""GPUs of a pod that no node has."""
CONTAINER = {"name": "c", "image": "train", "resources": {"limits": {GPU: str(LARGE)}}}
TEMPLATE: Json = {"spec": {"schedulerName": "maar", "restartPolicy": "Never", "containers": [CONTAINER]}}
RAY = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [{"groupName": "g", "replicas": 1, "template": TEMPLATE}],
}
JOB = {"parallelism": 2, "completions": 2, "template": TEMPLATE}
REPLICATED = {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": JOB}}]}


class Case(NamedTuple):
    """What an owner submits, and where she reads why it waits."""

    kind: AnyJobKind | PodGroupKind[Any]
    spec: Json
    annotations: Mapping[str, str] = MappingProxyType({})
    noted: bool = True
    """By the annotation; else by a condition of the object, or of its pods."""


def roles(kind: str) -> Json:
    field = {"XGBoostJob": "xgb"}.get(kind, kind.removesuffix("Job").lower())
    return {f"{field}ReplicaSpecs": {"Worker": {"replicas": 2, "template": TEMPLATE}}}


def by_name(api_version: str, kind: str) -> Any:
    found = kind_named(api_version, kind)
    assert found is not None
    return found


KUBEFLOW = [kind for kind in JOB_KINDS if kind.resource.group == "kubeflow.org"]
VOLCANO = {"minAvailable": 2, "tasks": [{"name": "t", "replicas": 2, "template": TEMPLATE}]}
CASES = {
    **{f"{kind}-{kind.resource.version}".lower(): Case(kind, roles(kind.resource.kind)) for kind in KUBEFLOW},
    "volcano-job": Case(by_name("batch.volcano.sh/v1alpha1", "Job"), VOLCANO),
    "rayjob": Case(by_name("ray.io/v1", "RayJob"), {"rayClusterSpec": RAY}),
    "raycluster": Case(by_name("ray.io/v1", "RayCluster"), RAY),
    "leaderworkerset": Case(
        by_name("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
        {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}},
    ),
    "jobset": Case(by_name("jobset.x-k8s.io/v1alpha2", "JobSet"), REPLICATED),
    "trainjob": Case(by_name("trainer.kubeflow.org/v1alpha1", "TrainJob"), {"runtimeRef": {"name": "torch"}}),
    "job": Case(by_name("batch/v1", "Job"), JOB, {"maar.dev/gang": "true"}),
    "job-of-single-pods": Case(by_name("batch/v1", "Job"), {**JOB, "parallelism": 9, "completions": 9}, noted=False),
    "group": Case(upstream_podgroup.KIND, {"schedulingPolicy": {"gang": {"minCount": 2}}}, noted=False),
    "volcano-group": Case(by_name("scheduling.volcano.sh/v1beta1", "PodGroup"), {"minMember": 2}, noted=False),
    "plugins-group": Case(by_name("scheduling.x-k8s.io/v1alpha1", "PodGroup"), {"minMember": 2}),
    ELASTIC: Case(
        by_name("kubeflow.org/v1", "PyTorchJob"),
        {**roles("PyTorchJob"), "elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}},
    ),
}
PLAIN_GANG = "gang-by-annotation"
ALONE = "pod"
APART = [name for name, case in CASES.items() if case.kind is mpijob.KIND_V2]
"""On a cluster of its own: a definition of the same name, in another version."""


class Told(NamedTuple):
    """What a cluster shows about one case."""

    events: list[str]
    """Messages of the events about the submitted object."""
    why: str
    conditions: list[Json]
    """Of the submitted object."""
    pods: list[Json]


def served(case: Case) -> Resource[Any]:
    """As the embedded server serves it."""
    return upstream_podgroup.ALPHA if case.kind is upstream_podgroup.KIND else case.kind.resource


async def submit(cluster: Live, name: str, case: Case) -> None:
    """Create an object, and what its controller makes of it."""
    resource = served(case)
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    body = {**head, "metadata": {"name": name, "annotations": dict(case.annotations)}, "spec": case.spec}
    await cluster.api.create(resource.path(NAMESPACE), body)
    if isinstance(case.kind, PodGroupKind):
        for i in range(2):
            await create_pod(cluster, case.kind.enter(Pod(metadata=Metadata(name=name)), name), f"{name}-{i}")
        return
    if str(case.kind) == "TrainJob":
        inner = by_name("jobset.x-k8s.io/v1alpha2", "JobSet")
        made = {"metadata": {"name": name, "ownerReferences": [await owner(cluster, resource, name)]}}
        await create_inner(cluster, inner, {**made, "spec": REPLICATED})
    else:
        await create_pods(cluster, case.kind, name)


async def owner(cluster: Live, resource: Resource[Any], name: str) -> Json:
    uid = (await cluster.get(resource.path(NAMESPACE, name)))["metadata"]["uid"]
    return {"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": uid, "controller": True}


async def create_inner(cluster: Live, kind: AnyJobKind, body: Json) -> None:
    resource = kind.resource
    await cluster.api.create(
        resource.path(NAMESPACE), {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    )
    await create_pods(cluster, kind, body["metadata"]["name"])


async def create_pods(cluster: Live, kind: AnyJobKind, name: str) -> None:
    """What the controller of an object creates."""
    item = msgspec.convert(await cluster.get(kind.resource.path(NAMESPACE, name)), kind.resource.struct, strict=False)
    for made in kind.creates(item):
        if isinstance(made, Inner):
            body = msgspec.to_builtins(made.item)
            body["metadata"] = {key: value for key, value in body["metadata"].items() if value}
            if "template" in body["spec"]:
                body["spec"]["template"]["spec"] = TEMPLATE["spec"]  # with the fields that Maar does not read
            await create_inner(cluster, made.kind, body)
        else:
            await create_pod(cluster, made, made.name)


async def create_pod(cluster: Live, pod: Pod, name: str) -> None:
    meta = pod.metadata
    owners = [msgspec.to_builtins(reference) for reference in meta.owner_references]
    group = pod.spec.scheduling_group.pod_group_name
    more: Json = {"schedulingGroup": {"podGroupName": group}} if group else {}
    metadata = {"labels": dict(meta.labels), "annotations": dict(meta.annotations), "ownerReferences": owners}
    await cluster.pod(name, gpu=LARGE, metadata=metadata, **more)


async def look(cluster: Live, name: str, path: str, prefix: str) -> Told:
    item = await cluster.get(path)
    events = (await cluster.get(EVENTS_PATH))["items"]
    failed = [e for e in events if e["reason"] == "FailedScheduling"]
    about = [e["message"] for e in failed if e["involvedObject"].get("uid") == item["metadata"]["uid"]]
    pods = (await cluster.get(PODS.path(NAMESPACE)))["items"]
    mine = [pod for pod in pods if pod["metadata"]["name"] in (prefix, *(f"{prefix}-{i}" for i in range(99)))]
    conditions = item.get("status", {}).get("conditions", [])
    return Told(about, item["metadata"].get("annotations", {}).get(WHY, ""), conditions, mine)


class Scenes(NamedTuple):
    """What a cluster shows about each case."""

    waiting: dict[str, Told]
    left: dict[str, Told]
    """Some time after all pods were deleted."""


async def play(cluster: Live, names: list[str]) -> Scenes:
    """Submit all cases, and wait until Maar has nothing more to say about them; then delete all pods."""
    await cluster.crds(OUR_CRDS)
    inner = [kind.resource for kind in JOB_KINDS if kind.resource.group in ("ray.io", "jobset.x-k8s.io")]
    resources = {CASES[name].kind.resource for name in names} | set(inner)
    built_in = ("batch", "scheduling.k8s.io", "scheduling.volcano.sh")
    await serve(cluster, *(r for r in resources if r.group not in built_in))
    await cluster.nodes(1, gpu=8)
    async with scheduling(cluster, Settings()) as scheduler:
        for name in names:
            await submit(cluster, name, CASES[name])
        for i in range(2):
            notes = {"pod_group": PLAIN_GANG, "pod_group_size": "2"}
            await cluster.pod(f"{PLAIN_GANG}-{i}", gpu=LARGE, metadata={"annotations": notes})
        await cluster.pod(ALONE, gpu=LARGE)
        places = {name: served(CASES[name]).path(NAMESPACE, name) for name in names}
        places[PLAIN_GANG] = PODS.path(NAMESPACE, f"{PLAIN_GANG}-0")
        places[ALONE] = PODS.path(NAMESPACE, ALONE)
        found: dict[str, Told] = {}

        async def all_told() -> bool:
            found.update({name: await look(cluster, name, path, name) for name, path in places.items()})
            return all(told.events and (told.why or told.conditions or told.pods) for told in found.values())

        with contextlib.suppress(TimeoutError):  # each test says what is missing
            async with asyncio.timeout(8.0):
                await cluster.eventually(all_told)
        await cluster.eventually(lambda: scheduler.executor.pending == 0)
        await all_told()
        waiting, left = dict(found), dict[str, Told]()
        for pod in (await cluster.get(PODS.path(NAMESPACE)))["items"]:
            await cluster.api.delete(PODS.path(NAMESPACE, pod["metadata"]["name"]))

        async def all_left() -> bool:
            left.update({name: await look(cluster, name, places[name], name) for name in names})
            said = ((told.why, *(condition["message"] for condition in told.conditions)) for told in left.values())
            return not any(NEVER in text for texts in said for text in texts)

        with contextlib.suppress(TimeoutError):  # each test says what is left
            async with asyncio.timeout(3 * AFTER):
                await cluster.eventually(all_left)
        return Scenes(waiting, left)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Scenes:
    found = Scenes({}, {})
    for names in ([name for name in CASES if name not in APART], APART):
        server = EmbeddedServer(parts=[Kubelets()])
        server.start()
        try:
            kubeconfig = server.kubeconfig(tmp_path_factory.mktemp("cluster") / "kubeconfig")

            async def main(kubeconfig: Any = kubeconfig, names: list[str] = names) -> None:
                async with connected(kubeconfig) as cluster:
                    for all_cases, these in zip(found, await play(cluster, names), strict=True):
                        all_cases.update(these)

            asyncio.run(main())
        finally:
            server.stop()
    return found


@pytest.fixture
def told(scenes: Scenes) -> dict[str, Told]:
    return scenes.waiting


def test_every_kind_has_a_case() -> None:
    kinds = {case.kind for case in CASES.values()}
    assert [] == [source.title for source in SOURCES if isinstance(source, PodGroupKind) and source not in kinds]
    assert [] == [str(kind) for kind in JOB_KINDS if kind not in kinds]


@pytest.mark.parametrize("name", CASES)
def test_the_object_has_one_event_and_the_reason(told: dict[str, Told], name: str) -> None:
    case, shown = CASES[name], told[name]
    reason = shown.events[0]
    never = NEVER_IN_POOL if name == ELASTIC else NEVER
    assert ([reason], never) == (shown.events, reason[: len(never)])
    if case.noted:
        assert reason == shown.why
    elif isinstance(case.kind, PodGroupKind):
        assert ("", [reason]) == (shown.why, [condition["message"] for condition in shown.conditions])
    else:
        assert ("", 9) == (shown.why, len(shown.pods)), "each of its pods waits for a reason of its own"
    assert all(NEVER in message(pod) for pod in shown.pods)


@pytest.mark.parametrize("name", CASES)
def test_when_all_pods_are_gone_the_object_no_longer_says_why_they_wait(scenes: Scenes, name: str) -> None:
    case, shown = CASES[name], scenes.left[name]
    said = [shown.why, *(condition["message"] for condition in shown.conditions)]
    assert ([], []) == (shown.pods, [text for text in said if NEVER in text])
    if isinstance(case.kind, PodGroupKind):
        assert "its pods are not created yet" in said, "a group waits for pods"
    elif name != ELASTIC:
        assert "" == shown.why


@pytest.mark.parametrize("name", [PLAIN_GANG, ALONE])
def test_pods_without_an_owner_have_the_event_and_the_condition(told: dict[str, Told], name: str) -> None:
    shown = told[name]
    assert ([NEVER], 1 if name == ALONE else 2) == ([e[: len(NEVER)] for e in shown.events], len(shown.pods))
    assert all(NEVER in message(pod) for pod in shown.pods)
    if name == ALONE:
        assert shown.events == [message(pod) for pod in shown.pods]


def message(pod: Json) -> str:
    """Of the condition that says why a pod waits."""
    conditions = pod["status"].get("conditions", [])
    return "".join(c["message"] for c in conditions if c["type"] == "PodScheduled")


def test_a_job_of_many_single_pods_has_one_event_for_those_that_start_and_one_for_those_that_wait(
    box: EmbeddedServer, tmp_path: Path
) -> None:
    """More nodes than one object may have events: those of the pods that start must not be all that she reads."""
    jobs, nodes = by_name("batch/v1", "Job").resource, PER_OBJECT + 5
    limits = {**CONTAINER, "resources": {"limits": {GPU: "8"}}}
    template = {"spec": {**TEMPLATE["spec"], "containers": [limits]}}
    spec = {"parallelism": nodes + 10, "completions": nodes + 10, "template": template}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sweep"}, "spec": spec}

    async def main() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            await cluster.nodes(nodes, gpu=8)
            async with scheduling(cluster):
                await cluster.api.create(jobs.path(NAMESPACE), body)
                await cluster.until(lambda pods: sum(bool(p.node) for p in pods) == nodes, "as many as fit run")
                await cluster.until(lambda pods: sum(bool(p.message) for p in pods if not p.node) == 10, "10 wait")

                async def found() -> list[str]:
                    events = (await cluster.get(EVENTS_PATH))["items"]
                    return sorted(e["reason"] for e in events if e["involvedObject"]["name"] == "sweep")

                async def has_both() -> bool:
                    return {"FailedScheduling", "Scheduled"} <= set(await found())

                await cluster.eventually(has_both, "she reads that some pods started and some wait")
                assert ["FailedScheduling", "Scheduled"] == await found()

    asyncio.run(main())
