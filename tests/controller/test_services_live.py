"""The profile `services`, live: pods of controllers and Services are spread, and every bound pod has an event."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.live import EVENTS_PATH, NAMESPACE, Live, Seen, bound, scheduling, tell

from maar.config.file import profile_text
from maar.kube.wire.api_resources import SERVICES


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    file = tmp_path / "services.yaml"
    file.write_text(profile_text("services"))
    return file


async def replica_set(cluster: Live, name: str) -> dict[str, Any]:
    """The metadata of the pods of a ReplicaSet that exists: pods without an owner are collected."""
    labels, path = {"app": name}, f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    head = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    await cluster.create(path, {**head, "spec": spec})
    uid = (await cluster.get(f"{path}/{name}"))["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": True}
    return {"ownerReferences": [owner], "labels": labels}


def nodes_of(pods: list[Seen], start: str) -> Counter[str]:
    return Counter(p.node for p in pods if p.name.startswith(start))


def all_placed(count: int) -> Any:
    return lambda pods: len(pods) == count and all(p.node for p in pods)


def test_services_are_spread_and_gangs_stay_packed(kubeconfig: Path, profile: Path) -> None:
    async def story(cluster: Live) -> None:
        spec = {"selector": {"app": "bare"}, "ports": [{"port": 80}]}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}
        async with scheduling(cluster, config=profile):
            await cluster.create(SERVICES.path(NAMESPACE), service)
            await cluster.gang("train", 4, gpu=2)
            pods = await cluster.until(bound("train", 4))
            assert 1 == len(nodes_of(pods, "train"))
            replica = await replica_set(cluster, "web")
            for i in range(4):
                await cluster.pod(f"web-{i}", metadata=replica)
                await cluster.pod(f"bare-{i}", metadata={"labels": {"app": "bare"}})
            pods = await cluster.until(all_placed(12))
            for start in ("web", "bare"):
                assert [1, 1, 1, 1] == list(nodes_of(pods, start).values())

    tell(kubeconfig, story, nodes=4)


async def assigned(cluster: Live, gang: str, kind: str = "Pod") -> list[str]:
    """The messages of the Scheduled events of the pods of a gang, or of the gang itself."""
    events = (await cluster.get(EVENTS_PATH))["items"]
    about = [e for e in events if (e["involvedObject"]["kind"], e["reason"]) == (kind, "Scheduled")]
    return sorted(e["message"] for e in about if e["involvedObject"]["name"].startswith(gang))


async def each_pod_has_an_event(cluster: Live, gang: str) -> None:
    """Start a gang of two pods, and wait for their events."""
    await cluster.gang(gang, 2, gpu=2)
    pods = await cluster.until(bound(gang, 2))
    wanted = sorted(f"Successfully assigned {NAMESPACE}/{p.name} to {p.node}" for p in pods if p.group == gang)

    async def told() -> bool:
        return wanted == await assigned(cluster, gang)

    await cluster.eventually(told, "an event for each pod")


async def only_the_gang_has_an_event(cluster: Live, gang: str) -> None:
    """Events of pods would be emitted before that of their gang."""
    await cluster.gang(gang, 2, gpu=2)
    await cluster.eventually(lambda: assigned(cluster, gang, "PodGroup"), "an event for the gang")
    assert [] == await assigned(cluster, gang)


def test_every_bound_pod_has_an_event(kubeconfig: Path, profile: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster, config=profile):
            await each_pod_has_an_event(cluster, "train")

    tell(kubeconfig, story)


def test_a_changed_configuration_switches_events_of_pods_while_maar_runs(kubeconfig: Path, profile: Path) -> None:
    on, off = (profile_text("services").replace("pod-events: true", f"pod-events: {to}") for to in ("true", "false"))

    async def story(cluster: Live) -> None:
        profile.write_text(off)
        async with scheduling(cluster, config=profile) as maar:

            async def change(text: str) -> None:
                profile.write_text(text)
                await cluster.eventually(lambda: maar.config.text == text, "the new configuration is read")

            await only_the_gang_has_an_event(cluster, "first")
            await change(on)
            await each_pod_has_an_event(cluster, "second")
            await change(off)
            await only_the_gang_has_an_event(cluster, "third")

    tell(kubeconfig, story)
