"""A gang in every dialect, with the live scheduler on a real API server that serves all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.live import NAMESPACE, Live, Seen, connected, scheduling, where
from tests.support.real.cluster import RealCluster

from maar.kube.kinds import plugins_podgroup, upstream_podgroup
from maar.kube.wire.api_resources import HYPERNODES

CRDS = Path(__file__).parents[1] / "data" / "crds"
Story = Callable[[Live], Awaitable[None]]


@pytest.fixture(scope="module")
def everything(real_parts: None) -> Iterator[RealCluster]:
    """A cluster that serves all dialects, without kubelets and operators."""
    with RealCluster.with_upstream_gangs() as cluster:
        cluster.apply_files(sorted(CRDS.glob("*.yaml")))
        yield cluster


@pytest.fixture
def cluster(everything: RealCluster) -> Iterator[RealCluster]:
    yield everything
    everything.clear()


def live(cluster: RealCluster, story: Story, nodes: int = 2) -> None:
    """Run a story with the scheduler running."""

    async def run() -> None:
        async with connected(cluster.kubeconfig) as play:
            await play.nodes(nodes, gpu=8)
            async with scheduling(play):
                await story(play)

    asyncio.run(run())


def owner(api_version: str, kind: str, label: str, **spec: Any) -> dict[str, Any]:
    """A gang by its owner: the owner, and the labels of its pods."""
    thing = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "train"}, "spec": spec}
    return {"thing": thing, "labels": {label: "train"}}


def group(api_version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": "train"}, "spec": spec}


def role(replicas: int) -> dict[str, Any]:
    return {"replicas": replicas, "template": {"spec": {"containers": []}}}


VOLCANO = group("scheduling.volcano.sh/v1beta1", minMember=3)
KUBEFLOW = "training.kubeflow.org/job-name"
BATCH = {"parallelism": 3, "completions": 3, "template": {"spec": {"containers": []}}}

DIALECTS: dict[str, dict[str, Any]] = {
    "upstream": {
        "thing": group(upstream_podgroup.ALPHA.api_version, schedulingPolicy={"gang": {"minCount": 3}}),
        "spec": {"schedulingGroup": {"podGroupName": "train"}},
    },
    "volcano": {"thing": VOLCANO, "annotations": {"scheduling.volcano.sh/group-name": "train"}},
    "volcano-as-kubeflow-writes-it": {"thing": VOLCANO, "annotations": {"scheduling.k8s.io/group-name": "train"}},
    "volcano-without-an-object": {
        "annotations": {"scheduling.k8s.io/group-name": "train", "scheduling.volcano.sh/group-min-member": "3"}
    },
    "scheduler-plugins": {
        "thing": group(plugins_podgroup.KIND.resource.api_version, minMember=3, scheduleTimeoutSeconds=10),
        "labels": {"scheduling.x-k8s.io/pod-group": "train"},
    },
    "annotation": {"annotations": {"pod_group": "train", "pod_group_size": "3"}},
    "pytorchjob": owner(
        "kubeflow.org/v1", "PyTorchJob", KUBEFLOW, pytorchReplicaSpecs={"Master": role(1), "Worker": role(2)}
    ),
    "tfjob": owner("kubeflow.org/v1", "TFJob", KUBEFLOW, tfReplicaSpecs={"PS": role(1), "Worker": role(2)}),
    "mpijob": owner("kubeflow.org/v1", "MPIJob", KUBEFLOW, mpiReplicaSpecs={"Launcher": role(1), "Worker": role(2)}),
    "volcano-job": owner("batch.volcano.sh/v1alpha1", "Job", "volcano.sh/job-name", minAvailable=3),
    "jobset": owner(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "jobset.sigs.k8s.io/jobset-name",
        replicatedJobs=[{"name": "workers", "replicas": 1, "template": {"spec": BATCH}}],
    ),
}


async def pod(play: Live, name: str, dialect: Mapping[str, Any], gpu: int = 4) -> None:
    metadata = {"annotations": dialect.get("annotations", {}), "labels": dialect.get("labels", {})}
    await play.pod(name, gpu=gpu, metadata=metadata, **dialect.get("spec", {}))


def all_bound(pods: list[Seen]) -> bool:
    return all(p.node for p in pods)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_gang_waits_for_its_last_pod_and_starts_whole(cluster: RealCluster, dialect: str) -> None:
    gang = DIALECTS[dialect]

    async def story(play: Live) -> None:
        if "thing" in gang:
            await asyncio.to_thread(cluster.apply, [gang["thing"]])
        for i in range(2):
            await pod(play, f"train-{i}", gang)
        line = "needs 3 pods, only 2 can be placed (the others do not exist, are blocked or have ended)"
        pods = await play.until(lambda ps: all(p.message == line for p in ps), f"both pods say `{line}`")
        assert not any(p.node for p in pods)
        await pod(play, "train-2", gang)
        pods = await play.until(all_bound, "all three have a node")
        assert 3 == len(pods)

    live(cluster, story)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_gang_that_does_not_fit_starts_when_it_does(cluster: RealCluster, dialect: str) -> None:
    gang = DIALECTS[dialect]

    async def story(play: Live) -> None:
        if "thing" in gang:
            await asyncio.to_thread(cluster.apply, [gang["thing"]])
        for i in range(3):
            await pod(play, f"train-{i}", gang, gpu=8)
        pods = await play.until(
            lambda ps: all("never on today's nodes" in p.message for p in ps), "all pods have a reason"
        )
        assert not any(p.node for p in pods)
        await play.nodes(1, gpu=8, first=2)
        pods = await play.until(all_bound, "all three have a node")
        assert {"n0", "n1", "n2"} == {p.node for p in pods}

    live(cluster, story)


def test_a_gang_of_unknown_size_is_what_came_before_it_settled(cluster: RealCluster) -> None:
    gang = {"annotations": {"pod_group": "train"}}

    async def story(play: Live) -> None:
        for i in range(3):
            await pod(play, f"train-{i}", gang, gpu=8)
            # A later pod of no gang is bound: the scheduler has decided with this one of the gang, and left it.
            probe = f"probe-{i}"
            await play.pod(probe)
            pods = await play.until(lambda ps: bool(where(ps)[probe]), "a later pod is bound")  # noqa: B023
            assert not any(p.node for p in pods if p.name.startswith("train"))
        pods = await play.until(
            lambda ps: all("needs 3 pods together" in p.message for p in ps if p.name.startswith("train")),
            "all pods of the gang say why they wait",
        )
        assert not any(p.node for p in pods if p.name.startswith("train"))
        await play.nodes(1, gpu=8, first=2)
        await play.until(all_bound, "all three have a node")

    live(cluster, story)


def test_a_plain_job_is_a_gang_only_if_annotated(cluster: RealCluster) -> None:
    def job(name: str, **annotations: str) -> dict[str, Any]:
        containers = [{"name": "c", "image": "train"}]
        template = {"spec": {"containers": containers, "restartPolicy": "Never", "schedulerName": "maar"}}
        spec = {"parallelism": 3, "completions": 3, "template": template}
        metadata = {"name": name, "annotations": {key.replace("_", "/"): v for key, v in annotations.items()}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    async def story(play: Live) -> None:
        made = await asyncio.to_thread(cluster.apply, [job("gang", **{"maar.dev_gang": "true"}), job("loose")])
        for thing in made:
            name, uid = thing["metadata"]["name"], thing["metadata"]["uid"]
            owned = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
            for i in range(2):
                await play.pod(f"{name}-{i}", gpu=1, metadata={"ownerReferences": [owned]})
        pods = await play.until(lambda ps: all(p.node or p.message for p in ps), "all have a node or a reason")
        assert {"loose-0", "loose-1"} == {p.name for p in pods if p.node}

    live(cluster, story)


def test_upstream_groups_report_that_they_are_scheduled(cluster: RealCluster) -> None:
    gang = DIALECTS["upstream"]

    async def story(play: Live) -> None:
        await asyncio.to_thread(cluster.apply, [gang["thing"]])

        path = upstream_podgroup.ALPHA.path(NAMESPACE, "train")

        async def conditions() -> dict[str, dict[str, str]]:
            return {c["type"]: c for c in (await play.get(path)).get("status", {}).get("conditions", [])}

        async def is_scheduled(status: str, part: str = "") -> bool:
            found = (await conditions()).get("PodGroupScheduled", {})
            return found.get("status") == status and part in found["message"]

        await pod(play, "train-0", gang)
        await play.eventually(lambda: is_scheduled("False", "1 can be placed"), "PodGroupScheduled is False")
        since = (await conditions())["PodGroupScheduled"]["lastTransitionTime"]
        times = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
        others = {"type": "Theirs", "status": "True", "reason": "Because", "message": "", **times}
        await play.api.patch(f"{path}/status", {"status": {"conditions": [others]}}, "strategic")
        await pod(play, "train-1", gang)
        await play.eventually(lambda: is_scheduled("False", "2 can be placed"), "the reason has changed")
        assert since == (await conditions())["PodGroupScheduled"]["lastTransitionTime"], "the status has not changed"
        await pod(play, "train-2", gang)
        await play.eventually(lambda: is_scheduled("True"), "PodGroupScheduled is True")
        assert {"PodGroupScheduled", "Theirs"} == (await conditions()).keys()

    live(cluster, story)


def test_a_gang_stays_within_a_hypernode(cluster: RealCluster) -> None:
    def hypernode(name: str, *nodes: str) -> dict[str, Any]:
        members = [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in nodes]
        head = {"apiVersion": HYPERNODES.api_version, "kind": "HyperNode", "metadata": {"name": name}}
        return {**head, "spec": {"tier": 1, "members": members}}

    async def story(play: Live) -> None:
        racks = [hypernode("rack-0", "n0", "n1"), hypernode("rack-1", "n2", "n3")]
        await asyncio.to_thread(cluster.apply, racks)
        await play.pod("in-the-way", gpu=1, nodeName="n0", schedulerName="other")
        close = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
        for name in ("first", "second"):
            await play.gang(name, 2, gpu=8, group=close)
            pods = await play.until(
                lambda ps, name=name: all(p.node or p.message for p in ps if p.group == name),  # type: ignore[misc]
                f"{name} has nodes or reasons",
            )
        assert {"n2", "n3"} == {p.node for p in pods if p.group == "first"}
        assert {""} == {p.node for p in pods if p.group == "second"}

    live(cluster, story, nodes=4)
