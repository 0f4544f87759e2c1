"""Failing hardware, live: nodes that stop responding or shrink, pods that hang in deletion, kubelets that reject pods.

The scenes run on the embedded server and on a real one, except for those in which a kubelet must act.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.live import EVENTS_PATH, GPU, NAMESPACE, Live, Seen, bound, scheduling, tell, where

from maar.controller.scheduler import Scheduler
from maar.controller.settings.settings import Settings
from maar.controller.snapshots.cycle import Cycle
from maar.embedded.http.faults import all_binds
from maar.embedded.objects.kinds import PODS as EMBEDDED_PODS
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.server import EmbeddedServer
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import NODES

RESTLESS = Settings(resync=0.1)
"""All jobs are looked at ten times a second, so that many resyncs take little time."""
A_LONG_TIME = 25
"""Number of cycles."""
STUCK = {"finalizers": ["test.dev/stuck"]}
"""A finalizer that keeps a deleted pod in Terminating, as if its kubelet were dead."""


async def after_a_long_time(cluster: Live, scheduler: Scheduler) -> list[Seen]:
    """The pods, many cycles later."""
    ends = scheduler.loop.cycles + A_LONG_TIME
    await cluster.eventually(lambda: scheduler.loop.cycles >= ends, "many cycles have passed")
    return await cluster.pods()


async def stop_responding(cluster: Live, node: str) -> None:
    """Write what the node controller writes when a kubelet stops responding."""
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": ""}
    await cluster.node_status(node, conditions=[unknown])
    taints = [{"key": "node.kubernetes.io/unreachable", "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    await cluster.api.patch(NODES.path(name=node), {"spec": {"taints": taints}}, "merge")


async def come_back(cluster: Live, node: str) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    await cluster.node_status(node, conditions=[ready])
    await cluster.api.patch(NODES.path(name=node), {"spec": {"taints": None}}, "merge")


def in_gang(name: str, **more: Any) -> dict[str, Any]:
    return {"annotations": {"scheduling.k8s.io/group-name": name}, **more}


def on(node: str) -> dict[str, Any]:
    """Fields of a pod that another scheduler has bound to the node."""
    return {"nodeName": node, "schedulerName": "another"}


# -- a node that is not ready


def test_nothing_new_goes_to_a_node_that_is_not_ready(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.pod("before", gpu=4)
            (seen,) = await cluster.until(lambda ps: bool(ps[0].node))
            home, other = seen.node, "n1" if seen.node == "n0" else "n0"
            not_ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": ""}
            await cluster.node_status(home, conditions=[not_ready])
            await cluster.gang("after", 2, gpu=4)
            await cluster.until(bound("after", 2))
            await cluster.pod("waits", gpu=1)
            pods = await cluster.until(lambda ps: any(p.name == "waits" and p.message for p in ps), "a reason")
            assert {"before": home, "after-0": other, "after-1": other, "waits": ""} == where(pods)
            await come_back(cluster, home)
            pods = await cluster.until(lambda ps: all(p.node for p in ps), "the node is used again")
            assert home == where(pods)["waits"]

    tell(kubeconfig, story)


def test_a_gang_moves_away_from_a_node_that_died(kubeconfig: Path) -> None:
    """The pod on the dead node hangs in Terminating; its successor starts elsewhere, and the gang is complete again."""

    async def story(cluster: Live) -> None:
        async with scheduling(cluster, RESTLESS) as scheduler:
            await cluster.group("train", 2)
            for i in range(2):
                await cluster.pod(f"train-{i}", gpu=8, metadata=in_gang("train", **STUCK))
            pods = await cluster.until(lambda ps: bound("train", 2)(ps) and all(p.phase == "Running" for p in ps))
            lost, kept = pods
            (spare,) = {"n0", "n1", "n2"} - {p.node for p in pods}
            await stop_responding(cluster, lost.node)
            pods = await after_a_long_time(cluster, scheduler)
            assert {lost.name: lost.node, kept.name: kept.node} == where(pods), "only the node controller acts"
            await cluster.delete(lost.name)
            await cluster.pod("train-2", gpu=8, metadata=in_gang("train"))
            pods = await cluster.until(bound("train", 2), "the gang is complete again")
            assert {lost.name: lost.node, kept.name: kept.node, "train-2": spare} == where(pods)
            await cluster.pod("waits", gpu=8)
            pods = await after_a_long_time(cluster, scheduler)
            assert "" == where(pods)["waits"], "a dead node has no room"
            await cluster.let_go(lost.name)
            await come_back(cluster, lost.node)
            await cluster.until(lambda ps: where(ps)["waits"] == lost.node, "the node is used again")
            await cluster.let_go(kept.name)

    tell(kubeconfig, story, nodes=3)


def test_a_job_is_whole_again_after_its_node_died(box: EmbeddedServer, tmp_path: Path) -> None:
    """Here simulated kubelets, node controller and job controller act."""
    kubelets = next(part for part in box.parts if isinstance(part, Kubelets))
    container = {"name": "c", "image": "train", "resources": {"limits": {GPU: "8"}}}
    template = {
        "metadata": in_gang("train"),
        "spec": {"schedulerName": "maar", "restartPolicy": "Never", "containers": [container]},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": NAMESPACE},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }

    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.group("train", 2)
            await cluster.create(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", job)
            pods = await cluster.until(lambda ps: bound("train", 2)(ps) and all(p.phase == "Running" for p in ps))
            dead = pods[0].node
            box.call(kubelets.kill, dead)
            await cluster.until(lambda ps: any(p.leaving for p in ps), "the node controller deletes its pods")
            pods = await cluster.until(bound("train", 2), "the gang is complete again")
            there = [p for p in pods if not p.leaving]
            assert {"n0", "n1", "n2"} - {dead} == {p.node for p in there}

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story, nodes=3)


# -- a victim that hangs in deletion


def test_maar_waits_for_a_stuck_victim_and_evicts_no_other(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        async with scheduling(cluster, RESTLESS) as scheduler:
            for name in ("low-a", "low-b"):
                await cluster.pod(name, gpu=8, metadata=STUCK)
            await cluster.until(lambda ps: all(p.phase == "Running" for p in ps))
            await cluster.pod("high", gpu=8, priorityClassName="high")
            await cluster.until(lambda ps: any(p.nominated for p in ps), "room is reserved")
            pods = await cluster.until(lambda ps: any(p.leaving for p in ps), "a victim is being deleted")
            (victim,) = [p for p in pods if p.leaving]
            pods = await after_a_long_time(cluster, scheduler)
            assert [victim.name] == [p.name for p in pods if p.leaving]
            assert [victim.node] == [p.nominated for p in pods if p.name == "high"]
            assert "" == where(pods)["high"]
            assert 1 == scheduler.outbox.counts["done:Evict"]
            await cluster.let_go(victim.name)
            pods = await cluster.until(lambda ps: bool(where(ps)["high"]), "the pod gets the reserved room")
            assert victim.node == where(pods)["high"]
            for pod in pods:
                await cluster.let_go(pod.name)

    tell(kubeconfig, story)


def test_a_gang_keeps_the_room_that_is_free_while_one_of_its_victims_is_stuck(kubeconfig: Path) -> None:
    """One victim is gone, the other hangs: the free room is reserved, and no other job may take it."""

    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        async with scheduling(cluster, RESTLESS) as scheduler:
            await cluster.group("low", 2)
            await cluster.pod("low-0", gpu=8, metadata=in_gang("low"))
            await cluster.pod("low-1", gpu=8, metadata=in_gang("low", **STUCK))
            await cluster.until(bound("low", 2))
            await cluster.pod("other", gpu=8)
            await cluster.until(lambda ps: all(p.phase == "Running" for p in ps))
            await cluster.gang("high", 2, gpu=8, priorityClassName="high")
            await cluster.until(lambda ps: "low-0" not in where(ps), "one victim is gone")
            await cluster.pod("thief", gpu=1)
            pods = await after_a_long_time(cluster, scheduler)
            assert ["low-1"] == [p.name for p in pods if p.leaving]
            assert {"high-0": "", "high-1": "", "thief": ""}.items() <= where(pods).items()
            await cluster.let_go("low-1")
            pods = await cluster.until(bound("high", 2))
            assert "" == where(pods)["thief"]
            assert ["high", "high", "", ""] == [p.group for p in pods]

    tell(kubeconfig, story, nodes=3)


# -- a node that shrinks


def test_a_node_with_less_than_is_used_on_it_takes_nothing_more(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        has = (await cluster.get(NODES.path(name="n0")))["status"]["allocatable"]
        async with scheduling(cluster, RESTLESS) as scheduler:
            await cluster.gang("train", 2, gpu=4)
            await cluster.until(bound("train", 2))
            await cluster.node_status("n0", allocatable={**has, GPU: "3"})
            await cluster.eventually(lambda: _has(scheduler, 3), "Maar has seen it")
            await cluster.pod("light", cpu="1")
            await cluster.until(lambda ps: where(ps)["light"] == "n0", "CPU is left")
            await cluster.pod("waits", gpu=1)
            await cluster.until(lambda ps: bool(ps[-1].message), "it has a reason")
            pods = await after_a_long_time(cluster, scheduler)
            assert {"light": "n0", "train-0": "n0", "train-1": "n0", "waits": ""} == where(pods)
            assert not any(p.leaving for p in pods), "no pod is evicted for it"
            assert "no nodes with enough free room: asks for 1 pod with 1 nvidia.com/gpu, 0.1 cpu" == pods[-1].message
            await cluster.node_status("n0", allocatable=has)
            pods = await after_a_long_time(cluster, scheduler)
            assert "" == where(pods)["waits"], "the node is as full as before"
            await cluster.delete("train-0")
            await cluster.until(lambda ps: where(ps)["waits"] == "n0", "there is room now")

    tell(kubeconfig, story, nodes=1)


def test_room_is_made_for_what_a_shrunken_node_really_has(kubeconfig: Path) -> None:
    """8 of 4 GPUs are in use: two pods of 4 must be evicted before one of 4 fits; one would leave it over-full."""

    async def story(cluster: Live) -> None:
        has = (await cluster.get(NODES.path(name="n0")))["status"]["allocatable"]
        await cluster.priority("high", 1000)
        async with scheduling(cluster, RESTLESS) as scheduler:
            for name in ("low-a", "low-b"):
                await cluster.pod(name, gpu=4)
            await cluster.until(lambda ps: all(p.phase == "Running" for p in ps))
            await cluster.node_status("n0", allocatable={**has, GPU: "4"})
            await cluster.eventually(lambda: _has(scheduler, 4), "Maar has seen it")
            await cluster.pod("high", gpu=4, priorityClassName="high")
            pods = await cluster.until(lambda ps: where(ps)["high"] == "n0", "there is room")
            assert {"high": "n0"} == where(pods)

    tell(kubeconfig, story, nodes=1)


def _has(scheduler: Scheduler, gpus: int) -> bool:
    return [gpus] == [node.allocatable[GPU] for node in scheduler.cache.latest.cluster.nodes]


# -- a kubelet that rejects a pod


async def reject(cluster: Live, pod: str) -> None:
    """Write what a kubelet writes if it has no room for a bound pod."""
    message = "Pod was rejected: Node didn't have enough resource: cpu, requested: 100, used: 32000, capacity: 32000"
    await cluster.pod_status(pod, phase="Failed", reason="OutOfcpu", message=message)


def test_a_rejected_pod_gives_its_room_back_and_its_gang_is_finished(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.gang("train", 2, gpu=8)
            pods = await cluster.until(lambda ps: bound("train", 2)(ps) and all(p.phase == "Running" for p in ps))
            lost, kept = pods
            await reject(cluster, lost.name)
            await cluster.pod("train-2", gpu=8, metadata=in_gang("train"))
            pods = await cluster.until(lambda ps: bool(where(ps)["train-2"]), "its successor has a node")
            assert {lost.name: lost.node, kept.name: kept.node, "train-2": lost.node} == where(pods)
            path = volcano_podgroup.KIND.resource.path(NAMESPACE, "train")
            await cluster.eventually(lambda: _phase(cluster, path, "Running"), "the gang runs")

    tell(kubeconfig, story)


async def _phase(cluster: Live, path: str, phase: str) -> bool:
    return bool((await cluster.get(path)).get("status", {}).get("phase") == phase)


def test_a_gang_that_cannot_be_finished_after_a_rejection_is_released(kubeconfig: Path) -> None:
    """Another pod took the room meanwhile: half a gang must not hold a node forever."""

    async def story(cluster: Live) -> None:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": NAMESPACE}}
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        await cluster.create(path, owner)
        uid = (await cluster.get(f"{path}/owner"))["metadata"]["uid"]
        owned = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "controller": True}
        metadata = in_gang("train", ownerReferences=[owned])
        async with scheduling(cluster):
            await cluster.group("train", 2)
            for i in range(2):
                await cluster.pod(f"train-{i}", gpu=8, metadata=metadata)
            pods = await cluster.until(lambda ps: bound("train", 2)(ps) and all(p.phase == "Running" for p in ps))
            lost, kept = pods
            await reject(cluster, lost.name)
            await cluster.pod("thief", gpu=8, **on(lost.node))
            await cluster.pod("train-2", gpu=8, metadata=metadata)
            pods = await cluster.until(lambda ps: kept.name not in where(ps), "the rest of the gang is evicted")
            assert {lost.name: lost.node, "thief": lost.node, "train-2": ""} == where(pods)
            await cluster.pod("train-3", gpu=8, metadata=metadata)
            await cluster.delete("thief")
            await cluster.until(bound("train", 3), "it starts again when both pods fit")

    tell(kubeconfig, story)


# -- pods that other schedulers bind, and refused binds


def test_pods_that_others_bind_are_counted(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        await cluster.pod("early", gpu=6, **on("n0"))
        async with scheduling(cluster, RESTLESS) as scheduler:
            await cluster.gang("train", 2, gpu=4)
            pods = await cluster.until(bound("train", 2))
            assert {"early": "n0", "train-0": "n1", "train-1": "n1"} == where(pods)
            await cluster.pod("late", gpu=1, **on("n0"))
            await cluster.eventually(lambda: "default/late" in scheduler.cache.latest.tasks.number, "Maar has seen it")
            await cluster.pod("two", gpu=2)
            pods = await after_a_long_time(cluster, scheduler)
            assert "" == where(pods)["two"]
            await cluster.delete("late")
            await cluster.until(lambda ps: where(ps)["two"] == "n0", "there is room now")

    tell(kubeconfig, story)


@pytest.mark.parametrize("gpus", [8, 20])
def test_a_node_that_others_fill_or_overfill_takes_nothing_more(box: EmbeddedServer, tmp_path: Path, gpus: int) -> None:
    """A node can be over-full if its kubelet does not check, for example because it is dead."""

    async def story(cluster: Live) -> None:
        kubelets = next(part for part in box.parts if isinstance(part, Kubelets))
        box.call(kubelets.dead.add, "n0")
        for i in range(gpus // 4):
            await cluster.pod(f"theirs-{i}", gpu=4, **on("n0"))
        async with scheduling(cluster, RESTLESS) as scheduler:
            await cluster.pod("small", gpu=1)
            await cluster.until(lambda ps: bool(where(ps)["small"]))
            await cluster.gang("train", 2, gpu=8)  # Created last, because an elected gang would lock both nodes.
            pods = await after_a_long_time(cluster, scheduler)
            assert {"train-0": "", "train-1": "", "small": "n1"}.items() <= where(pods).items()

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story)


def between(box: EmbeddedServer, scheduler: Scheduler, task: str, do: Any) -> None:
    """Call `do` on the server between the decision for a task and its bind."""

    def on_cycle(cycle: Cycle) -> None:
        for bind in cycle.plan.bind:
            if bind.task == task:
                scheduler.loop.on_cycle.remove(on_cycle)
                box.call(do, bind.node)

    scheduler.loop.on_cycle.append(on_cycle)


def test_a_pod_of_others_that_lands_between_decision_and_bind(box: EmbeddedServer, tmp_path: Path) -> None:
    """This cannot be prevented: the kubelet rejects one of the two pods, and its successor starts elsewhere."""

    def land(node: str) -> None:
        container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "8"}}}
        pod = {"metadata": {"name": "theirs"}, "spec": {"containers": [container], **on(node)}}
        box.api.create(EMBEDDED_PODS, NAMESPACE, pod)

    async def story(cluster: Live) -> None:
        async with scheduling(cluster, RESTLESS) as scheduler:
            between(box, scheduler, "default/ours", land)
            await cluster.pod("ours", gpu=8)
            pods = await cluster.until(lambda ps: any(p.phase == "Failed" for p in ps), "a kubelet rejects one")
            assert ["ours"] == [p.name for p in pods if p.phase == "Failed"]
            await cluster.pod("again", gpu=8)
            pods = await cluster.until(lambda ps: bool(where(ps)["again"]))
            assert {"n0", "n1"} == {where(pods)["again"], where(pods)["theirs"]}
            await cluster.pod("more", gpu=1)
            pods = await after_a_long_time(cluster, scheduler)
            assert "" == where(pods)["more"], "the rejected pod uses no room, the other two use all of it"

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story)


def test_a_pod_of_ours_that_others_bind_first_stays_there_and_the_room_for_it_is_free(
    box: EmbeddedServer, tmp_path: Path
) -> None:
    chosen = ""

    def bind_elsewhere(node: str) -> None:
        nonlocal chosen
        chosen = node

        def changed(pod: dict[str, Any]) -> dict[str, Any]:
            pod["spec"]["nodeName"] = "n3"
            return pod

        box.api.change(EMBEDDED_PODS, NAMESPACE, "train-0", changed, part="binding")

    async def story(cluster: Live) -> None:
        await cluster.api.patch(NODES.path(name="n3"), {"spec": {"unschedulable": True}}, "merge")
        async with scheduling(cluster, RESTLESS) as scheduler:
            between(box, scheduler, "default/train-0", bind_elsewhere)
            await cluster.gang("train", 2, gpu=8)
            pods = await cluster.until(bound("train", 2))
            assert "n3" == where(pods)["train-0"]
            await cluster.gang("next", 2, gpu=8)
            pods = await cluster.until(bound("next", 2))
            assert chosen in {p.node for p in pods if p.group == "next"}
            assert 1 == scheduler.outbox.counts["failed:Bind"]

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story, nodes=4)


def test_a_refused_bind_has_no_event_that_says_it_was_done(box: EmbeddedServer, tmp_path: Path) -> None:
    async def told(cluster: Live, reason: str) -> list[str]:
        events = (await cluster.get(EVENTS_PATH))["items"]
        return sorted(e["message"] for e in events if (e["reason"], e["involvedObject"]["kind"]) == (reason, "Pod"))

    async def story(cluster: Live) -> None:
        box.faults.fail_share, box.faults.fail_codes, box.faults.fails = 1.0, (403,), all_binds
        async with scheduling(cluster, Settings(resync=0.05, pod_events=True)):
            await cluster.gang("train", 2, gpu=4)
            await cluster.eventually(lambda: told(cluster, "FailedScheduling"), "the refusal, which is told later")
            assert [] == await told(cluster, "Scheduled")
            box.faults.clear()
            await cluster.until(bound("train", 2))
            wanted = [f"Successfully assigned {NAMESPACE}/train-{i} to n0" for i in range(2)]

            async def done() -> bool:
                return wanted == await told(cluster, "Scheduled")

            await cluster.eventually(done, "one event for each bound pod")

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story, nodes=1)


def test_a_bind_that_is_refused_for_good_is_tried_again_with_growing_waits(box: EmbeddedServer, tmp_path: Path) -> None:
    """As by a webhook or a missing permission: the pod shows the reason, and the server is not flooded."""

    async def is_reported(cluster: Live) -> bool:
        events = (await cluster.get(EVENTS_PATH))["items"]
        return any("could not be bound to `n0`: " in e["message"] for e in events if e["reason"] == "FailedScheduling")

    async def story(cluster: Live) -> None:
        box.faults.fail_share, box.faults.fail_codes, box.faults.fails = 1.0, (403,), all_binds
        async with scheduling(cluster, RESTLESS) as scheduler:
            await cluster.pod("train", gpu=8)
            await cluster.eventually(lambda: scheduler.outbox.counts["failed:Bind"] >= 2, "it is tried again")
            await cluster.eventually(lambda: is_reported(cluster), "the pod shows the reason")
            await after_a_long_time(cluster, scheduler)
            assert scheduler.outbox.counts["failed:Bind"] < A_LONG_TIME / 3
            box.faults.clear()
            await cluster.until(lambda ps: bool(where(ps)["train"]), "it starts")

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story, nodes=1)
