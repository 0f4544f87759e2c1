"""`tenants: untrusted` live, on both servers: beyond her share, neither a budget nor a grace period keeps a pod."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from tests.support.live import NAMESPACE, Live, Seen, scheduling, tell

from maar.kube.wire.api_resources import PODS

BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "all", "namespace": NAMESPACE},
    "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"of": "hers"}}},
}


def in_queue(name: str, **more: Any) -> dict[str, Any]:
    return {"labels": {"of": name}, "annotations": {"volcano.sh/queue-name": name}, **more}


def test_budgets_and_grace_periods_end_with_the_share(kubeconfig: Path, tmp_path: Path) -> None:
    """She has all 8 GPUs in two pods that a budget protects, and which take hours to stop. One of them goes."""
    config = tmp_path / "maar.yaml"
    text = files("maar").joinpath("default.yaml").read_text()
    config.write_text(text.replace("tenants: trusted", "tenants: untrusted"))
    slow: dict[str, Any] = {"gpu": 4, "terminationGracePeriodSeconds": 10_000}

    def run(pods: list[Seen]) -> bool:
        return len(pods) == 2 and all(pod.phase == "Running" for pod in pods)

    async def story(cluster: Live) -> None:
        await cluster.queue("hers")
        await cluster.queue("mine")
        await cluster.create(BUDGETS, BUDGET)
        async with scheduling(cluster, config=config) as scheduler:
            for i in range(2):
                await cluster.pod(f"hers-{i}", metadata=in_queue("hers", finalizers=["test.dev/wait"]), **slow)
            await cluster.until(run, "she has everything")
            await cluster.pod("mine", gpu=4, metadata=in_queue("mine"))
            pods = await cluster.until(lambda ps: any(pod.leaving for pod in ps), "a pod beyond her share goes")
            (victim,) = (pod.name for pod in pods if pod.leaving)
            await cluster.eventually(lambda: scheduler.outbox.counts["done:Delete"] == 1)
            seen = (await cluster.get(PODS.path(NAMESPACE, victim)))["metadata"]
            assert seen["deletionGracePeriodSeconds"] <= 600, "kwok sets it to 0 at once"
            assert 0 == scheduler.outbox.counts["done:Evict"]
            await cluster.api.delete_pod(NAMESPACE, victim, seen["uid"], 0)
            await cluster.let_go(victim)
            await cluster.until(lambda ps: any(pod.name == "mine" and pod.node for pod in ps), "my pod runs")
        await cluster.let_go(next(f"hers-{i}" for i in range(2) if f"hers-{i}" != victim))
        await cluster.api.delete(f"{BUDGETS}/all")

    tell(kubeconfig, story, nodes=1)
