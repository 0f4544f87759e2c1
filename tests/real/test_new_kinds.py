"""The kinds of KubeRay, LeaderWorkerSet, JobSet and Kubeflow Trainer, on a real API server with their own CRDs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support import new_kinds as make
from tests.support.elastic_story import CONFIG
from tests.support.live import NAMESPACE, Live, Seen, connected, scheduling
from tests.support.new_kinds import JOBSET, LWS, RAY, TRAINER, Json
from tests.support.real.api import Refused
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available, folders

from maar.kube.kinds import kind_named

PARTS = ("kuberay", "lws", "jobset", "trainer")
INT32_MAX = 2147483647


@pytest.fixture(scope="module")
def served(real: RealCluster) -> RealCluster:
    """The real API server, with the CRDs of all new kinds."""
    if not (found := available(*PARTS)):
        if os.environ.get("MAAR_REAL"):
            pytest.fail(found.why_not)
        pytest.skip(found.why_not)
    homes = folders()
    real.apply_files(path for part in PARTS for path in sorted(homes[part].glob("*.yaml")))
    return real


@pytest.fixture
def cluster(served: RealCluster) -> Iterator[RealCluster]:
    yield served
    served.clear()


def template(**spec: Any) -> dict[str, Any]:
    """A pod template with one container."""
    return {"spec": {"containers": [{"name": "main", "image": "example.com/main:1"}], **spec}}


def ray_spec(**group: Any) -> dict[str, Any]:
    """A head and one group of workers."""
    workers = {"groupName": "workers", "template": template(), **group}
    return {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [workers]}


def thing(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, "spec": spec}


def replicated(name: str, **fields: Any) -> dict[str, Any]:
    """One of a JobSet's replicated jobs."""
    return {"name": name, "template": {"spec": {"template": template(restartPolicy="Never")}}, **fields}


def applied(cluster: RealCluster, api_version: str, kind: str, spec: dict[str, Any]) -> Any:
    """The spec of a new object as the server keeps it."""
    (kept,) = cluster.apply([thing(api_version, kind, spec)])
    return kept["spec"]


def test_a_worker_group_without_bounds_gets_bounds_that_say_nothing(cluster: RealCluster) -> None:
    (group,) = applied(cluster, RAY, "RayCluster", ray_spec())["workerGroupSpecs"]
    expected = {"replicas": 0, "minReplicas": 0, "maxReplicas": INT32_MAX, "numOfHosts": 1}
    assert expected == {name: group[name] for name in expected}


def test_a_ray_job_is_submitted_by_a_job_unless_it_says_otherwise(cluster: RealCluster) -> None:
    spec = applied(cluster, RAY, "RayJob", {"entrypoint": "python train.py", "rayClusterSpec": ray_spec(replicas=3)})
    assert ("K8sJobMode", 0) == (spec["submissionMode"], spec["backoffLimit"])
    (group,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    assert (3, 0, INT32_MAX) == (group["replicas"], group["minReplicas"], group["maxReplicas"])


def test_a_leader_worker_set_is_one_group_of_one_pod_by_default(cluster: RealCluster) -> None:
    spec = applied(cluster, LWS, "LeaderWorkerSet", {"leaderWorkerTemplate": {"workerTemplate": template()}})
    size = spec["leaderWorkerTemplate"]["size"]
    assert (1, 1, "LeaderCreated") == (spec["replicas"], size, spec["startupPolicy"])


def test_a_job_set_keeps_what_its_jobs_wait_for(cluster: RealCluster) -> None:
    after = [{"name": "first", "status": "Complete"}]
    jobs = [replicated("first"), replicated("second", dependsOn=after)]
    spec = applied(cluster, JOBSET, "JobSet", {"replicatedJobs": jobs})
    assert [1, 1] == [job["replicas"] for job in spec["replicatedJobs"]]
    assert [None, after] == [job.get("dependsOn") for job in spec["replicatedJobs"]]


def test_a_job_set_waits_in_one_way_only(cluster: RealCluster) -> None:
    jobs = [replicated("first"), replicated("second", dependsOn=[{"name": "first", "status": "Ready"}])]
    in_order = {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
    with pytest.raises(Refused, match="DependsOn"):
        cluster.apply([thing(JOBSET, "JobSet", in_order)])


def test_a_train_job_names_a_runtime_of_the_cluster_by_default(cluster: RealCluster) -> None:
    spec = applied(cluster, TRAINER, "TrainJob", {"runtimeRef": {"name": "one"}, "trainer": {"numNodes": 4}})
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "one"}
    assert (reference, False) == (spec["runtimeRef"], spec["suspend"])


@pytest.mark.parametrize(
    ("api_version", "kind", "spec"),
    [
        pytest.param(RAY, "RayCluster", ray_spec(), id="RayCluster"),
        pytest.param(RAY, "RayJob", {"rayClusterSpec": ray_spec()}, id="RayJob"),
        pytest.param(JOBSET, "JobSet", {"replicatedJobs": [replicated("first")]}, id="JobSet"),
        pytest.param(TRAINER, "TrainJob", {"runtimeRef": {"name": "one"}}, id="TrainJob"),
    ],
)
def test_it_can_be_suspended_by_a_merge_patch(
    cluster: RealCluster, api_version: str, kind: str, spec: dict[str, Any]
) -> None:
    cluster.apply([thing(api_version, kind, spec)])
    path = f"/apis/{api_version}/namespaces/default/{kind.lower()}s/one"
    for suspend in (True, False):
        patch = {"spec": {"suspend": suspend}}
        cluster.request("PATCH", path, patch, content_type="application/merge-patch+json")
        assert suspend == cluster.get(api_version, kind, "one")["spec"]["suspend"]


# -- Maar at work. The tests play the controllers: they make inner objects and pods, with labels and owners.

Story = Callable[[Live], Awaitable[None]]


def tell(cluster: RealCluster, folder: Path, story: Story) -> None:
    """Tell a story on one node with 8 GPUs, with Maar at work."""
    config = folder / "maar.yaml"
    config.write_text(CONFIG)

    async def told() -> None:
        async with connected(cluster.kubeconfig) as play:
            await play.nodes(1, gpu=8)
            async with scheduling(play, config=config):
                await story(play)

    asyncio.run(told())


def path_of(item: Json, *, new: bool = False) -> str:
    kind = kind_named(item["apiVersion"], item["kind"])
    assert kind is not None
    return kind.resource.path(NAMESPACE, None if new else item["metadata"]["name"])


async def create(play: Live, item: Json) -> Json:
    """Create an object: as the server has it, with its uid."""
    body = {**item, "metadata": {k: v for k, v in item["metadata"].items() if k != "uid"}}
    made: Json = msgspec.json.decode(await play.api.create(path_of(item, new=True), body))
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], **made}


async def create_all(play: Live, role: str, of: Json, **metadata: Any) -> None:
    """The Jobs of a replicated job, and their pods."""
    job: Json = {}
    for item in make.job_set_pods(of, role, **metadata):
        if item["kind"] == "Job":
            job = await create(play, item)
        else:
            await create(play, {**item, "metadata": {**item["metadata"], **make.owned(job)}})


def nodes_of(pods: list[Seen]) -> dict[str, bool]:
    """Whether each pod has a node."""
    return {pod.name: bool(pod.node) for pod in pods}


def waits(needs: int, there: int) -> Callable[[list[Seen]], bool]:
    """That no pod has a node, and all say why."""
    line = f"needs {needs} pods, only {there} can be placed (the others do not exist, are blocked or have ended)"
    return lambda pods: len(pods) == there and all(p.message == line and not p.node for p in pods)


def bound(count: int) -> Callable[[list[Seen]], bool]:
    return lambda pods: len(pods) == count and all(p.node for p in pods)


def test_a_ray_cluster_starts_whole(cluster: RealCluster, tmp_path: Path) -> None:
    async def story(play: Live) -> None:
        ray = await create(play, make.ray_cluster(make.worker_group("a", 2)))
        await create(play, make.ray_pod(ray, "head"))
        await create(play, make.ray_pod(ray, "a-worker-x2k4p", "a"))
        await play.until(waits(3, 2), "head and one worker wait for the other")
        await create(play, make.ray_pod(ray, "a-worker-b6v8z", "a"))
        await play.until(bound(3), "all start")

    tell(cluster, tmp_path, story)


def test_a_ray_job_starts_whole_and_its_submitter_by_itself(cluster: RealCluster, tmp_path: Path) -> None:
    async def story(play: Live) -> None:
        outer = await create(play, make.ray_job(make.worker_group("a", 1)))
        inner = make.ray_cluster(make.worker_group("a", 1), name="job-x2v5l", metadata=make.owned(outer))
        ray = await create(play, inner)
        await create(play, make.ray_pod(ray, "head"))
        submits = await create(play, make.batch_job("job", outer))
        await create(play, make.pod("submitter", submits, {}))
        pods = await play.until(lambda pods: nodes_of(pods).get("submitter", False), "the submitter starts")
        assert {"job-x2v5l-head": False, "submitter": True} == nodes_of(pods)
        await create(play, make.ray_pod(ray, "a-worker-b6v8z", "a"))
        await play.until(bound(3), "and then the others")

    tell(cluster, tmp_path, story)


def suspended_ray_cluster() -> list[Json]:
    return [make.ray_cluster(make.worker_group("a", 3), suspend=True)]


def suspended_ray_job() -> list[Json]:
    return [make.ray_job(make.worker_group("a", 3), suspend=True, shutdownAfterJobFinishes=True)]


def suspended_job_set() -> list[Json]:
    return [make.job_set(make.replicated("node", 2, 2), suspend=True)]


def suspended_train_job() -> list[Json]:
    return [make.train_job(suspend=True), *suspended_job_set()]


@pytest.mark.parametrize("made", [suspended_ray_cluster, suspended_ray_job, suspended_job_set, suspended_train_job])
def test_a_suspended_job_is_resumed_when_it_fits(
    cluster: RealCluster, tmp_path: Path, made: Callable[[], list[Json]]
) -> None:
    async def story(play: Live) -> None:
        await play.pod("other", gpu=6)
        await play.until(bound(1), "another pod leaves 2 GPUs")
        outer, *items = made()
        outer = await create(play, outer)
        inner = [await create(play, {**i, "metadata": {**i["metadata"], **make.owned(outer)}}) for i in items]

        async def waits() -> bool:
            notes = (await play.get(path_of(outer)))["metadata"].get("annotations", {})
            return "maar.dev/why" in notes

        await play.eventually(waits, "its owner can read why it waits")
        assert (await play.get(path_of(outer)))["spec"]["suspend"]
        await play.delete("other")

        async def resumed() -> bool:
            return not (await play.get(path_of(outer)))["spec"].get("suspend", False)

        await play.eventually(resumed, "it is resumed")
        for item in inner:
            now = await play.get(path_of(item))
            assert item["metadata"]["resourceVersion"] == now["metadata"]["resourceVersion"], (
                "nothing inside is written"
            )

    tell(cluster, tmp_path, story)


def test_a_resumed_train_job_goes_on_with_its_nodes(cluster: RealCluster, tmp_path: Path) -> None:
    """Once its initializer has completed, the nodes are what is suspended for an important pod, and resumed."""

    async def story(play: Live) -> None:
        await play.priority("high", 10)
        outer = await create(play, make.train_job(suspend=True))
        jobs = (make.replicated("data"), make.replicated("node", 1, 8, "data"))
        inner = await create(play, make.job_set(*jobs, metadata=make.owned(outer), suspend=True))

        async def suspended() -> bool:
            return bool((await play.get(path_of(outer)))["spec"]["suspend"])

        async def resumed() -> bool:
            return not await suspended()

        await play.eventually(resumed, "it is resumed")
        await play.api.patch(path_of(inner), {"spec": {"suspend": False}}, "merge")
        await create_all(play, "data", inner)
        await play.until(bound(1), "the initializer starts")
        await play.pod_status("set-data-0-0", phase="Succeeded")
        counts = {name: int(name == "succeeded") for name in ("ready", "succeeded", "failed", "active", "suspended")}
        status = {"replicatedJobsStatus": [{"name": "data", **counts}]}
        await play.api.patch(f"{path_of(inner)}/status", {"status": status}, "merge")
        await play.delete("set-data-0-0")  # as `ttlSecondsAfterFinished` does
        await create_all(play, "node", inner)
        await play.until(bound(8), "then all nodes")
        await play.pod("important", gpu=8, priorityClassName="high")
        await play.eventually(suspended, "it is suspended for a more important pod")
        for pod in await play.pods():
            if pod.name != "important":
                await play.delete(pod.name)
        await play.until(bound(1), "which starts")
        await play.delete("important")
        await play.eventually(resumed, "and it is resumed")

    tell(cluster, tmp_path, story)


class Operator:
    """KubeRay, played: makes the pods of a cluster that runs, and deletes those of one that is suspended."""

    def __init__(self, play: Live, ray: Json) -> None:
        self.play = play
        self.ray = ray
        self.made = 0

    @classmethod
    async def of(cls, play: Live, name: str, most: int) -> Operator:
        notes = {"annotations": {"maar.dev/min-workers": "1", "maar.dev/max-workers": str(most)}}
        return cls(play, await create(play, make.ray_cluster(make.worker_group("a", 1), name=name, metadata=notes)))

    async def follow(self) -> int:
        """Let the pods be those that the cluster asks for: how many workers that is."""
        spec, name = (await self.play.get(path_of(self.ray)))["spec"], self.ray["metadata"]["name"]
        there = sorted(p.name for p in await self.play.pods() if p.name.startswith(name) and not p.leaving)
        workers = [pod for pod in there if pod != f"{name}-head"]
        wanted = 0 if spec.get("suspend") else int(spec["workerGroupSpecs"][0]["replicas"])
        for pod in workers[wanted:] if wanted else there:
            await self.play.delete(pod)
        if wanted and f"{name}-head" not in there:
            await create(self.play, make.ray_pod(self.ray, "head"))
        for _ in range(wanted - len(workers)):
            self.made += 1
            await create(self.play, make.ray_pod(self.ray, f"a-worker-{'bcdfghjklmnpqrstvwxz'[self.made]}", "a"))
        return wanted


def test_an_elastic_ray_cluster_grows_and_shrinks(cluster: RealCluster, tmp_path: Path) -> None:
    async def story(play: Live) -> None:
        one = await Operator.of(play, "one", 9)

        async def grown() -> bool:
            return await one.follow() == 8

        await play.eventually(grown, "it takes all there is")
        await play.until(bound(9), "and all of it runs")
        two = await Operator.of(play, "two", 2)

        async def shared() -> bool:
            return [await one.follow(), await two.follow()] == [6, 2]

        await play.eventually(shared, "it makes room for another one")
        await play.until(bound(10), "two heads and eight workers run")
        (group,) = (await play.get(path_of(one.ray)))["spec"]["workerGroupSpecs"]
        assert ("a", INT32_MAX) == (group["groupName"], group["maxReplicas"]), "nothing else is written"
        assert "example.com/main:1" == group["template"]["spec"]["containers"][0]["image"]

    tell(cluster, tmp_path, story)


@pytest.mark.parametrize("grouped", [False, True], ids=["plain", "pod-group"])
def test_parts_of_a_train_job_start_one_after_the_other(cluster: RealCluster, tmp_path: Path, grouped: bool) -> None:
    """With Trainer's PodGroup too, whose minimum counts the nodes, which do not exist before the initializers end."""

    async def story(play: Live) -> None:
        outer = await create(play, make.train_job())
        jobs = (make.replicated("data"), make.replicated("model"), make.replicated("node", 1, 3, "data", "model"))
        inner = await create(play, make.job_set(*jobs, metadata=make.owned(outer)))
        notes = {"annotations": make.in_group("set")} if grouped else {}
        if grouped:
            await create(play, make.pod_group("set", 5, outer))
        await create_all(play, "data", inner, **notes)
        if not grouped:
            await play.until(waits(2, 1), "one initializer waits for the other")
        await create_all(play, "model", inner, **notes)
        await play.until(bound(2), "the initializers start without the nodes")
        for pod in await play.pods():
            await play.pod_status(pod.name, phase="Succeeded")
        await create_all(play, "node", inner, **notes)
        await play.until(bound(5), "then the nodes")

    tell(cluster, tmp_path, story)


def test_with_leader_ready_a_leader_starts_and_then_its_workers(cluster: RealCluster, tmp_path: Path) -> None:
    async def story(play: Live) -> None:
        await create(play, make.leader_worker_set(2, 3, startupPolicy="LeaderReady"))
        for group in range(2):
            await create(play, make.group_pod(group, 0))
        await play.until(bound(2), "both leaders start")
        await create(play, make.group_pod(0, 1))
        line = "needs 2 pods, only 1 can be placed (the others do not exist, are blocked or have ended)"
        await play.until(lambda pods: [line] == [p.message for p in pods if p.name == "serve-0-1"], "a worker waits")
        await create(play, make.group_pod(0, 2))
        await play.until(bound(4), "the workers start together")

    tell(cluster, tmp_path, story)


def test_each_group_of_a_leader_worker_set_starts_whole(cluster: RealCluster, tmp_path: Path) -> None:
    async def story(play: Live) -> None:
        await create(play, make.leader_worker_set(2, 2))
        for group in range(2):
            await create(play, make.group_pod(group, 0))
        await play.until(lambda pods: all(not p.node and p.message for p in pods), "both wait")
        await create(play, make.group_pod(1, 1))
        pods = await play.until(lambda pods: nodes_of(pods).get("serve-1-1", False), "the second group starts")
        assert {"serve-0": False, "serve-1": True, "serve-1-1": True} == nodes_of(pods)

    tell(cluster, tmp_path, story)
