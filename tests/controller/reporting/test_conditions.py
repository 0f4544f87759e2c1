"""Conditions as autoscalers and owners read them: nodes are asked for only where nodes are missing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.autoscaler import asks
from tests.support.live import EVENTS_PATH, NAMESPACE, OUR_CRDS, Live, Seen, bound, scheduling, tell

from maar.controller.reporting.reports import AGAIN
from maar.controller.settings.brakes import Brakes, BrakeSettings
from maar.embedded.server import EmbeddedServer
from maar.kube.kinds import batchjob, volcano_podgroup
from maar.kube.wire.annotations import WHY
from maar.kube.wire.api_resources import PODS, QUEUES

GATE: dict[str, Any] = {"schedulingGates": [{"name": "example.com/wait"}]}


async def asking(cluster: Live) -> set[str]:
    """The pods for which an autoscaler creates nodes."""
    pods = (await cluster.get(PODS.path(NAMESPACE)))["items"]
    return {pod["metadata"]["name"] for pod in pods if asks(pod)}


def reasons(pods: list[Seen]) -> dict[str, str]:
    return {pod.name: pod.reason for pod in pods if not pod.node}


async def until_reasons(cluster: Live, expected: Mapping[str, str]) -> None:
    await cluster.until(lambda pods: reasons(pods) == expected, f"the reasons are {expected}")


def test_nodes_are_asked_for_only_where_nodes_are_missing(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        await cluster.queue("small", capability={"nvidia.com/gpu": "1"})
        await cluster.queue("closed", state="Closed")
        async with scheduling(cluster):
            await cluster.gang("runs", 2, gpu=8)
            await cluster.until(bound("runs", 2))
            await cluster.gang("room", 2, gpu=4)
            await cluster.pod("large", gpu=64)
            await cluster.pod("other", nodeSelector={"kind": "h100"})
            await cluster.gang("limit", 2, gpu=1, group={"queue": "small"})
            await cluster.gang("members", 1, minimum=3, gpu=1)
            await cluster.pod("gated", gpu=1, **GATE)
            await cluster.gang("nowhere", 1, group={"queue": "none"})
            gated = "" if reasons(await cluster.pods()).get("gated") == "" else "SchedulingGated"
            expected = {
                **dict.fromkeys(("room-0", "room-1", "large", "other"), "Unschedulable"),
                **dict.fromkeys(("limit-0", "limit-1"), "QueueLimit"),
                "members-0": "WaitingForMembers",
                "gated": gated,
                "nowhere-0": "InvalidQueue",
            }
            await until_reasons(cluster, expected)
            assert {"room-0", "room-1", "large", "other"} == await asking(cluster)
            await cluster.api.patch(PODS.path(NAMESPACE, "gated"), {"spec": {"schedulingGates": None}})
            await until_reasons(cluster, {**expected, "gated": "Unschedulable"})

    tell(kubeconfig, story, nodes=2)


def test_without_any_node_nodes_are_asked_for(kubeconfig: Path) -> None:
    """A node group may scale from zero."""

    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.gang("train", 4, minimum=3, gpu=8)
            await until_reasons(
                cluster, {**dict.fromkeys(("train-0", "train-1", "train-2"), "Unschedulable"), "train-3": "Surplus"}
            )
            await cluster.nodes(3, gpu=8)
            await cluster.until(bound("train", 3))

    tell(kubeconfig, story, nodes=0)


def test_a_pod_that_joins_a_waiting_gang_later_has_its_condition_too(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.gang("train", 2, gpu=16)
            await until_reasons(cluster, dict.fromkeys(("train-0", "train-1"), "Unschedulable"))
            metadata = {"annotations": {"scheduling.k8s.io/group-name": "train"}}
            await cluster.pod("train-2", gpu=16, metadata=metadata)
            await until_reasons(
                cluster, {**dict.fromkeys(("train-0", "train-1"), "Unschedulable"), "train-2": "Surplus"}
            )

    tell(kubeconfig, story)


def test_a_condition_that_could_not_be_written_is_written_later(box: EmbeddedServer, tmp_path: Path) -> None:
    """A webhook or a missing right refuses it: without the condition no autoscaler would ever add the nodes."""
    ahead = 0.0

    async def story(cluster: Live) -> None:
        nonlocal ahead
        await cluster.crds(OUR_CRDS)
        async with scheduling(cluster, clock=lambda: time.time() + ahead) as scheduler:
            box.faults.fails = lambda method, path: (
                method == "PATCH" and ("/podgroups/" in path or path.endswith("/status"))
            )
            box.faults.fail_share, box.faults.fail_codes = 1.0, (403,)
            await cluster.queue("research")
            await cluster.gang("train", 2, gpu=16, group={"queue": "research"})
            await cluster.pod("runs", gpu=8)
            failed = scheduler.executor.counts
            # Two queues, one group and two pods.
            await cluster.eventually(lambda: failed.failed >= 5, "all are refused")
            box.faults.clear()
            before = failed.failed + failed.done
            ahead = AGAIN / 2
            scheduler.look_again()
            await cluster.eventually(lambda: scheduler.executor.pending == 0)
            assert before == failed.failed + failed.done, "a refused write is not repeated at once"
            ahead = AGAIN + 1.0
            scheduler.look_again()
            await until_reasons(cluster, dict.fromkeys(("train-0", "train-1"), "Unschedulable"))

            async def is_written() -> bool:
                queue = await cluster.get(QUEUES.path(name="research"))
                group = await cluster.get(volcano_podgroup.KIND.resource.path(NAMESPACE, "train"))
                reasons = [c["reason"] for c in group.get("status", {}).get("conditions", ())]
                return "summary" in queue.get("status", {}) and reasons == ["Unschedulable"]

            await cluster.eventually(is_written, "the queue and the group have their status")

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story, nodes=1)


def test_while_victims_leave_no_node_is_asked_for_and_a_promise_that_is_given_up_is_cleared(kubeconfig: Path) -> None:
    held = {"finalizers": ["example.com/held"], "annotations": {"scheduling.k8s.io/group-name": "low"}}

    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        async with scheduling(cluster):
            await cluster.group("low", 2)
            for i in range(2):
                await cluster.pod(f"low-{i}", gpu=8, metadata=held)
            await cluster.until(bound("low", 2))
            await cluster.gang("high", 2, gpu=8, priorityClassName="high")
            pods = await cluster.until(
                lambda ps: sum(p.group == "high" and bool(p.nominated) for p in ps) == 2, "promised"
            )
            assert {"high-0": "Nominated", "high-1": "Nominated"} == {
                p.name: p.reason for p in pods if p.group == "high"
            }
            assert set() == await asking(cluster)
            await cluster.delete("high-1")
            await cluster.until(
                lambda ps: all((p.nominated, p.reason) == ("", "WaitingForMembers") for p in ps if p.group == "high"),
                "the promise is gone",
            )
            for i in range(2):
                await cluster.let_go(f"low-{i}")

    tell(kubeconfig, story, nodes=2)


def test_a_job_that_the_brakes_hold_asks_for_no_nodes(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        async with scheduling(cluster, brakes=Brakes(BrakeSettings(paused=True))):
            await cluster.gang("low", 2, gpu=8)
            await cluster.until(bound("low", 2))
            await cluster.gang("high", 2, gpu=8, priorityClassName="high")
            await until_reasons(cluster, {"high-0": "Held", "high-1": "Held"})

    tell(kubeconfig, story, nodes=2)


async def why(cluster: Live, path: str) -> str:
    metadata: dict[str, Any] = (await cluster.get(path))["metadata"]
    return str(metadata.get("annotations", {}).get(WHY, ""))


def test_the_object_that_the_owner_submitted_tells_her(kubeconfig: Path) -> None:
    """A Job whose pods form a gang: its status belongs to the Job controller."""
    jobs = batchjob.KIND.resource

    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.gang("runs", 2, gpu=8)
            await cluster.until(bound("runs", 2))
            container = {"name": "c", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
            template = {"spec": {"schedulerName": "maar", "restartPolicy": "Never", "containers": [container]}}
            job = {
                "apiVersion": jobs.api_version,
                "kind": jobs.kind,
                "metadata": {"name": "train", "namespace": NAMESPACE, "annotations": {"maar.dev/gang": "true"}},
                "spec": {"parallelism": 2, "completions": 2, "template": template},
            }
            await cluster.api.create(jobs.path(NAMESPACE), job)
            uid = (await cluster.get(jobs.path(NAMESPACE, "train")))["metadata"]["uid"]
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
            for i in range(2):
                await cluster.pod(f"train-{i}", gpu=8, metadata={"ownerReferences": [owner]})

            async def told() -> bool:
                events = (await cluster.get(EVENTS_PATH))["items"]
                failed = [e["involvedObject"] for e in events if e["reason"] == "FailedScheduling"]
                assert {"Job"} >= {about["kind"] for about in failed}, "not one of its pods"
                return any(about["uid"] == uid for about in failed)

            await cluster.eventually(told, "the Job has the event")
            said = await why(cluster, jobs.path(NAMESPACE, "train"))
            assert said.startswith("no nodes with enough free room: asks for 2 pods with 8 nvidia.com/gpu"), said
            for i in range(2):
                await cluster.delete(f"runs-{i}")
            await cluster.until(lambda ps: sum(p.name.startswith("train") and bool(p.node) for p in ps) == 2)

            async def cleared() -> bool:
                return not await why(cluster, jobs.path(NAMESPACE, "train"))

            await cluster.eventually(cleared, "the note is gone")

    tell(kubeconfig, story, nodes=2)
