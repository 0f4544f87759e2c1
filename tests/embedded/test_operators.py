"""The simulated training operator: pods for each role, sizes, suspension, and the end of jobs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.embedded.conftest import Cluster, cluster

from maar.embedded.parts.kubelets import RUNTIME, Kubelets
from maar.embedded.parts.lives import RESULT
from maar.embedded.parts.operators import TrainingOperator

Obj = dict[str, Any]
Story = Callable[[Cluster], Awaitable[None]]
FIELDS = {"PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}


def run(story: Story) -> None:
    async def main() -> None:
        async with cluster(Kubelets(start=0.0, stop=0.0), TrainingOperator()) as c:
            await c.add_node("n1", cpu="64")
            await story(c)

    asyncio.run(main())


def role(replicas: int, restart: str = "", **annotations: str) -> Obj:
    spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}
    wanted: Obj = {"replicas": replicas, "template": {"metadata": {"annotations": annotations}, "spec": spec}}
    return {**wanted, "restartPolicy": restart} if restart else wanted


def path(kind: str = "PyTorchJob", name: str = "t") -> str:
    return f"/apis/kubeflow.org/v1/namespaces/default/{kind.lower()}s/{name}"


async def add(c: Cluster, roles: Obj, kind: str = "PyTorchJob", policy: Obj | None = None, **spec: Any) -> None:
    body = {"metadata": {"name": "t"}, "spec": {FIELDS[kind]: roles, "runPolicy": policy or {}, **spec}}
    code, answer = await c.ask("POST", path(kind).rpartition("/")[0], body)
    assert 201 == code, answer


async def patch(c: Cluster, spec: Obj, kind: str = "PyTorchJob") -> None:
    merge = {"Content-Type": "application/merge-patch+json"}
    async with c.session.patch(path(kind), json={"spec": spec}, headers=merge) as response:
        assert 200 == response.status, await response.text()


def pods(c: Cluster) -> list[str]:
    return sorted(p["metadata"]["name"] for p in c.all_pods() if not p["metadata"].get("deletionTimestamp"))


async def bind_all(c: Cluster) -> None:
    for pod in c.all_pods():
        if not pod["spec"].get("nodeName"):
            await c.bind(pod["metadata"]["name"], "n1")


async def until_condition(c: Cluster, type: str, kind: str = "PyTorchJob", value: str = "True") -> None:
    item = c.server.api.kind("kubeflow.org", "v1", f"{kind.lower()}s")

    def holds() -> bool:
        conditions = c.server.api.get(item, "default", "t").obj.get("status", {}).get("conditions", [])
        return any((x["type"], x["status"]) == (type, value) for x in conditions)

    await c.until(holds)


def test_roles_get_pods_with_the_labels_of_the_real_operator() -> None:
    async def story(c: Cluster) -> None:
        await add(c, {"Master": role(1), "Worker": role(2)})
        await c.until(lambda: ["t-master-0", "t-worker-0", "t-worker-1"] == pods(c))
        labels = c.all_pods()[-1]["metadata"]["labels"]
        assert ("t", "worker", "1") == tuple(
            labels[f"training.kubeflow.org/{x}"] for x in ("job-name", "replica-type", "replica-index")
        )
        await until_condition(c, "Created")
        await bind_all(c)
        await until_condition(c, "Running")

    run(story)


def test_an_mpijob_has_a_launcher() -> None:
    async def story(c: Cluster) -> None:
        await add(c, {"Launcher": role(1), "Worker": role(1)}, "MPIJob")
        await c.until(lambda: ["t-launcher", "t-worker-0"] == pods(c))

    run(story)


def test_shrinking_removes_the_highest_indices() -> None:
    async def story(c: Cluster) -> None:
        await add(c, {"Worker": role(4)})
        await c.until(lambda: 4 == len(pods(c)))
        await patch(c, {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}})
        await c.until(lambda: ["t-worker-0", "t-worker-1"] == pods(c))
        await patch(c, {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}})
        await c.until(lambda: ["t-worker-0", "t-worker-1", "t-worker-2"] == pods(c))

    run(story)


def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    async def story(c: Cluster) -> None:
        await add(c, {"Worker": role(2)}, policy={"suspend": True})
        await until_condition(c, "Suspended")
        assert [] == pods(c)
        await patch(c, {"runPolicy": {"suspend": False}})
        await c.until(lambda: 2 == len(pods(c)))
        await until_condition(c, "Suspended", value="False")
        await bind_all(c)
        await until_condition(c, "Running")
        await patch(c, {"runPolicy": {"suspend": True}})
        await c.until(lambda: not pods(c))
        await until_condition(c, "Running", value="False")

    run(story)


@pytest.mark.parametrize(
    ("restart", "ends"), [("", "Running"), ("OnFailure", "Running"), ("Never", "Failed"), ("ExitCode", "Failed")]
)
def test_a_failed_worker_is_replaced_or_ends_the_job(restart: str, ends: str) -> None:
    async def story(c: Cluster) -> None:
        await add(c, {"Worker": role(1, restart)})
        await c.until(lambda: 1 == len(pods(c)))
        await bind_all(c)
        await until_condition(c, "Running")
        first = c.all_pods()[0]["metadata"]["uid"]
        failed = {"status": {"phase": "Failed"}}
        merge = {"Content-Type": "application/merge-patch+json"}
        async with c.session.patch(f"{c.pods}/t-worker-0/status", json=failed, headers=merge) as response:
            assert 200 == response.status
        if ends == "Failed":
            await until_condition(c, "Failed")
            return
        await c.until(lambda: any(p["metadata"]["uid"] != first for p in c.all_pods()))
        await bind_all(c)
        await until_condition(c, "Restarting", value="False")

    run(story)


def test_a_job_fails_beyond_its_backoff_limit() -> None:
    async def story(c: Cluster) -> None:
        await add(c, {"Worker": role(1, **{RUNTIME: "0", RESULT: "Failed"})}, policy={"backoffLimit": 1})
        for _ in range(2):
            await c.until(lambda: any(not p["spec"].get("nodeName") for p in c.all_pods()))
            await bind_all(c)
        await until_condition(c, "Failed")

    run(story)


@pytest.mark.parametrize("kind", ["PyTorchJob", "MPIJob"])
def test_a_job_succeeds_with_its_leader(kind: str) -> None:
    leader = {"PyTorchJob": "Master", "MPIJob": "Launcher"}[kind]

    async def story(c: Cluster) -> None:
        roles = {leader: role(1, **{RUNTIME: "0"}), "Worker": role(2)}
        await add(c, roles, kind, policy={"cleanPodPolicy": "Running"})
        await c.until(lambda: 3 == len(pods(c)))
        await bind_all(c)
        await until_condition(c, "Succeeded", kind)
        await c.until(lambda: 1 == len(pods(c)))

    run(story)
