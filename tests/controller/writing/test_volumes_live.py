"""Pods with volumes, live: the same scenes on the embedded server and on a real one, with a simulated provisioner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.support.live import EVENTS_PATH, NAMESPACE, Live, Seen, bound, connected, scheduling
from tests.support.provisioner import (
    ZONE,
    Provisioner,
    claim,
    csi_capacity,
    csi_driver,
    csi_node,
    storage_class,
    using,
    volume,
)

from maar.kube.read.storage.claims import SELECTED_NODE
from maar.kube.wire.api_resources import (
    CLAIMS,
    CSI_CAPACITIES,
    CSI_DRIVERS,
    CSI_NODES,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
    VOLUMES,
)

CRDS = Path(__file__).parents[3] / "deploy" / "crds"
Story = Callable[[Live, Provisioner], Awaitable[None]]


def live(kubeconfig: Path, story: Story, refuses: Callable[[str, str], bool] = lambda claim, node: False) -> None:
    """Play a story on a cluster with a node in each of two zones and volumes that wait for their first consumer."""

    async def tell() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.crds(CRDS)
            await cluster.nodes(1, gpu=8, labels={ZONE: "a", "kubernetes.io/hostname": "n0"})
            await cluster.nodes(1, gpu=8, first=1, labels={ZONE: "b", "kubernetes.io/hostname": "n1"})
            await cluster.create(STORAGE_CLASSES.path(), storage_class())
            async with Provisioner(cluster.api, refuses).running() as provisioner:
                await story(cluster, provisioner)

    asyncio.run(tell())


async def claims(cluster: Live, *names: str, **more: Any) -> None:
    for name in names:
        await cluster.create(CLAIMS.path(NAMESPACE), claim(name, **more))


async def selected(cluster: Live, name: str) -> str:
    """The node that is selected for a claim's volume."""
    found = await cluster.get(CLAIMS.path(NAMESPACE, name))
    return str(found["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))


async def phase(cluster: Live, name: str) -> str:
    return str((await cluster.get(CLAIMS.path(NAMESPACE, name)))["status"]["phase"])


async def scheduled(cluster: Live, name: str) -> list[str]:
    """The messages of the Scheduled events of a pod."""
    events = (await cluster.get(EVENTS_PATH))["items"]
    return [e["message"] for e in events if (e["reason"], e["involvedObject"]["name"]) == ("Scheduled", name)]


def one(name: str) -> Callable[[list[Seen]], bool]:
    """Whether a pod has a node."""
    return lambda pods: any(p.name == name and p.node for p in pods)


def named(pods: list[Seen], name: str) -> Seen:
    return next(p for p in pods if p.name == name)


def test_a_claim_is_handed_over_and_its_pod_bound_once_it_has_its_volume(kubeconfig: Path) -> None:
    async def story(cluster: Live, provisioner: Provisioner) -> None:
        provisioner.hold()
        async with scheduling(cluster) as maar:
            await claims(cluster, "data")
            await cluster.pod("train", gpu=8, **using("data"))
            await cluster.eventually(lambda: selected(cluster, "data"), "the claim is handed over")
            # Its room is reserved, no other pod is delayed, and it is not bound before its volume exists.
            await cluster.pod("other", gpu=8)
            pods = await cluster.until(one("other"))
            node = await selected(cluster, "data")
            assert {"train": "", "other": {"n0": "n1", "n1": "n0"}[node]} == {p.name: p.node for p in pods}
            assert 1 == maar.outbox.counts["done:Bind"]
            await cluster.eventually(lambda: scheduled(cluster, "other"), "the bound pod has an event")
            assert [] == await scheduled(cluster, "train"), "it is not scheduled yet"
            provisioner.go.set()
            pods = await cluster.until(one("train"))
            await cluster.eventually(lambda: scheduled(cluster, "train"), "its event")
            assert [f"Successfully assigned {NAMESPACE}/train to {node}"] == await scheduled(cluster, "train")
            assert (node, "Bound") == (named(pods, "train").node, await phase(cluster, "data"))
            assert [("data", node)] == provisioner.asked

    live(kubeconfig, story)


def test_a_gang_with_a_volume_each_starts_whole(kubeconfig: Path) -> None:
    async def story(cluster: Live, provisioner: Provisioner) -> None:
        async with scheduling(cluster):
            names = [f"scratch-{i}" for i in range(4)]
            await claims(cluster, *names)
            await cluster.group("train", 4)
            for i, name in enumerate(names):
                grouped = {"annotations": {"scheduling.k8s.io/group-name": "train"}}
                await cluster.pod(f"train-{i}", gpu=4, metadata=grouped, **using(name))
            pods = await cluster.until(bound("train", 4))
            assert sorted((f"scratch-{p.name[-1]}", p.node) for p in pods) == sorted(provisioner.asked)

    live(kubeconfig, story)


def test_a_bound_volume_keeps_its_pod_in_its_zone(kubeconfig: Path) -> None:
    async def story(cluster: Live, provisioner: Provisioner) -> None:
        async with scheduling(cluster):
            await claims(cluster, "data")
            await cluster.pod("first", gpu=8, **using("data"))
            first = named(await cluster.until(one("first")), "first")
            await cluster.pod("second", gpu=1, **using("data"))
            pods = await cluster.until(lambda ps: any(p.name == "second" and p.message for p in ps), "the reason")
            zone = {"n0": "a", "n1": "b"}[first.node]
            asks = "no nodes with enough free room: asks for 1 pod with 1 nvidia.com/gpu, 0.1 cpu"
            reason = f"{asks}; other nodes: cannot reach its volume at `{zone}`"
            second = named(pods, "second")
            assert ("", True) == (second.node, second.message.startswith(reason)), second.message
            await cluster.delete("first")
            assert first.node == named(await cluster.until(one("second")), "second").node

    live(kubeconfig, story)


def test_a_node_takes_no_more_volumes_than_its_driver_says(kubeconfig: Path) -> None:
    async def story(cluster: Live, provisioner: Provisioner) -> None:
        for node, limit in (("n0", 2), ("n1", 1)):
            await cluster.create(CSI_NODES.path(), csi_node(node, limit))
        async with scheduling(cluster):
            names = [f"d{i}" for i in range(4)]
            await claims(cluster, *names)
            for name in names:
                await cluster.pod(f"with-{name}", **using(name))
            pods = await cluster.until(lambda ps: sum(bool(p.node) for p in ps) == 3 and any(p.message for p in ps))
            (left,) = (p for p in pods if not p.node)
            assert ["n0", "n0", "n1"] == sorted(p.node for p in pods if p.node)
            assert "no node fits: at their volume limit of disk.test.dev; asks for 1 pod with 0.1 cpu" == left.message
            await cluster.pod("without")
            await cluster.until(one("without"), "a pod without volumes is not affected")
            there = next(p for p in pods if p.node)
            await cluster.delete(there.name)
            assert there.node == named(await cluster.until(one(left.name)), left.name).node

    live(kubeconfig, story)


def test_a_volume_that_two_pods_share_counts_once(kubeconfig: Path) -> None:
    async def story(cluster: Live, provisioner: Provisioner) -> None:
        for node in ("n0", "n1"):
            await cluster.create(CSI_NODES.path(), csi_node(node, 1))
        async with scheduling(cluster):
            await claims(cluster, "data", "own", "late")
            for name, of in (("first", "data"), ("second", "data"), ("third", "own")):
                await cluster.pod(name, **using(of))
                await cluster.until(one(name))
            await cluster.pod("fourth", **using("late"))
            pods = await cluster.until(lambda ps: any(p.name == "fourth" and p.message for p in ps), "the reason")
            nodes = {p.name: p.node for p in pods}
            assert [nodes["first"], {"n0": "n1", "n1": "n0"}[nodes["first"]]] == [nodes["second"], nodes["third"]]
            assert "at their volume limit of disk.test.dev" in named(pods, "fourth").message
            await cluster.delete("first")
            pods = await cluster.until(lambda ps: all(p.name != "first" for p in ps))
            assert "" == named(pods, "fourth").node, "`second` still uses the volume"
            await cluster.delete("second")
            assert nodes["first"] == named(await cluster.until(one("fourth")), "fourth").node

    live(kubeconfig, story)


def test_a_volume_is_made_where_its_driver_has_storage_left(kubeconfig: Path) -> None:
    """Nothing is left in zone `a`, where the first node is."""

    async def story(cluster: Live, provisioner: Provisioner) -> None:
        await cluster.create(CSI_DRIVERS.path(), csi_driver())
        await cluster.create(CSI_CAPACITIES.path(NAMESPACE), csi_capacity("a", "0"))
        await cluster.create(CSI_CAPACITIES.path(NAMESPACE), csi_capacity("b", "5Gi"))
        async with scheduling(cluster):
            await claims(cluster, "data")
            await claims(cluster, "large", size="10Gi")
            await cluster.pod("train", **using("data"))
            await cluster.until(one("train"))
            await cluster.pod("load", **using("large"))
            pods = await cluster.until(lambda ps: any(p.name == "load" and p.message for p in ps), "the reason")
            assert "no node fits: have too little free storage of class `disk`" in named(pods, "load").message
            await cluster.api.patch(CSI_CAPACITIES.path(NAMESPACE, "b"), {"capacity": "20Gi"}, "merge")
            await cluster.until(one("load"), "the driver has more storage")
            assert [("data", "n1"), ("large", "n1")] == provisioner.asked

    live(kubeconfig, story)


def test_a_claim_for_one_pod_is_preempted(kubeconfig: Path) -> None:
    async def story(cluster: Live, provisioner: Provisioner) -> None:
        await cluster.priority("high", 1000)
        async with scheduling(cluster):
            await claims(cluster, "data", access="ReadWriteOncePod")
            await cluster.pod("holder", **using("data"))
            await cluster.pod("other")
            await cluster.until(lambda ps: one("holder")(ps) and one("other")(ps))
            await cluster.pod("equal", **using("data"))
            pods = await cluster.until(lambda ps: any(p.name == "equal" and p.message for p in ps), "the reason")
            has = "closed to it by claim `data`, which is for one pod only: `default/holder` has it"
            assert has in named(pods, "equal").message
            await cluster.pod("urgent", priorityClassName="high", **using("data"))
            pods = await cluster.until(one("urgent"))
            assert ["other", "urgent"] == sorted(p.name for p in pods if p.node and not p.leaving)

    live(kubeconfig, story)


def test_where_a_volume_is_refused_the_pod_goes_elsewhere(kubeconfig: Path) -> None:
    refusing: list[str] = []

    def refuses(claim: str, node: str) -> bool:
        """The first requested node has no disk left."""
        refusing.append(node)
        return node == refusing[0]

    async def story(cluster: Live, provisioner: Provisioner) -> None:
        async with scheduling(cluster) as maar:
            await claims(cluster, "data")
            await cluster.pod("train", gpu=8, **using("data"))
            pods = await cluster.until(one("train"))
            first, second = provisioner.asked
            assert ({"n0", "n1"}, second[1]) == ({first[1], second[1]}, named(pods, "train").node)
            assert 1 == maar.outbox.counts["failed:HandOver"]

    live(kubeconfig, story, refuses)


def test_a_restart_between_hand_over_and_bind_finishes_on_the_same_node(kubeconfig: Path) -> None:
    async def story(cluster: Live, provisioner: Provisioner) -> None:
        provisioner.hold()
        polite = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": "PriorityClass", "metadata": {"name": "polite"}}
        await cluster.create(PRIORITY_CLASSES.path(), {**polite, "value": 1000, "preemptionPolicy": "Never"})
        async with scheduling(cluster):
            await claims(cluster, "data")
            await cluster.pod("train", gpu=8, **using("data"))
            await cluster.eventually(lambda: selected(cluster, "data"), "the claim is handed over")
        node = await selected(cluster, "data")
        for name in ("greedy-0", "greedy-1"):
            await cluster.pod(name, gpu=8, priorityClassName="polite")
        async with scheduling(cluster):
            pods = await cluster.until(lambda ps: any(p.node for p in ps))
            assert {node} == {"n0", "n1"} - {p.node for p in pods if p.node}, "its room is reserved"
            provisioner.go.set()
            pods = await cluster.until(one("train"))
            assert (node, [("data", node)]) == (named(pods, "train").node, provisioner.asked)

    live(kubeconfig, story)


def test_a_missing_claim_is_named_and_delays_no_other_pod(kubeconfig: Path) -> None:
    async def story(cluster: Live, provisioner: Provisioner) -> None:
        async with scheduling(cluster):
            await cluster.pod("train", gpu=1, **using("nowhere"))
            await cluster.pod("other", gpu=1)
            pods = await cluster.until(lambda ps: one("other")(ps) and any(p.message for p in ps))
            assert "held back: claim `nowhere` does not exist" == named(pods, "train").message
            await claims(cluster, "nowhere")
            await cluster.until(one("train"), "the claim exists now")

    live(kubeconfig, story)


def test_local_volumes_are_given_out_one_to_a_pod(kubeconfig: Path) -> None:
    async def story(cluster: Live, provisioner: Provisioner) -> None:
        await cluster.create(STORAGE_CLASSES.path(), storage_class("local", provisioner="kubernetes.io/no-provisioner"))
        for name, host, size in (("small", "n0", "1Gi"), ("a", "n0", "10Gi"), ("b", "n1", "10Gi")):
            await cluster.create(VOLUMES.path(), volume(name, "local", host=host, size=size))
            await cluster.api.patch(VOLUMES.path(name=name, sub="status"), {"status": {"phase": "Available"}})
        async with scheduling(cluster):
            names = [f"local-{i}" for i in range(3)]
            await claims(cluster, *names, of="local", size="5Gi")
            for name in names:
                await cluster.pod(f"with-{name}", **using(name))
            pods = await cluster.until(lambda ps: sum(bool(p.node) for p in ps) == 2 and any(p.message for p in ps))
            (left,) = (p for p in pods if not p.node)
            assert (
                "no node fits: have no free volume of class `local` that fits; asks for 1 pod with 0.1 cpu"
                == left.message
            )
            given = {p.name: p.node for p in pods if p.node}
            for name, host in (("a", "n0"), ("b", "n1")):
                owner = (await cluster.get(VOLUMES.path(name=name)))["spec"]["claimRef"]["name"]
                assert host == given[f"with-{owner}"]
            assert "claimRef" not in (await cluster.get(VOLUMES.path(name="small")))["spec"]

    live(kubeconfig, story)
