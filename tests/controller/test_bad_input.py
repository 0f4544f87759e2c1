"""Invalid input, live: an invalid job waits with the reason on its own object, and all other jobs continue."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.live import CRDS, EVENTS_PATH, NAMESPACE, OUR_CRDS, Live, bound, scheduling, tell, where

from maar.embedded.objects.kinds import PODS as EMBEDDED_PODS
from maar.embedded.server import EmbeddedServer
from maar.kube.client.errors import ApiError
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import PODS, QUEUES

GROUPS = "podgroups.scheduling.volcano.sh"
ALL_QUEUES = "queues.scheduling.volcano.sh"


def in_gang(name: str) -> dict[str, Any]:
    return {"annotations": {"scheduling.k8s.io/group-name": name}}


async def pod_says(cluster: Live, name: str, text: str) -> None:
    """Wait until a pod shows the reason, in its condition and in an event."""

    async def shown() -> bool:
        (pod,) = [p for p in await cluster.pods() if p.name == name]
        assert "" == pod.node
        return text in pod.message

    await cluster.eventually(shown, f"`{name}` says: {text}")


async def group_says(cluster: Live, name: str, text: str) -> None:
    """Wait until a PodGroup shows the reason."""

    async def shown() -> bool:
        group = await cluster.get(volcano_podgroup.KIND.resource.path(NAMESPACE, name))
        conditions = group.get("status", {}).get("conditions", [])
        return any(text in c["message"] for c in conditions if c["type"] == "Unschedulable")

    await cluster.eventually(shown, f"PodGroup `{name}` says: {text}")


async def event_says(cluster: Live, kind: str, name: str, text: str) -> None:
    """Wait for an event about an object."""

    async def shown() -> bool:
        events = (await cluster.get(EVENTS_PATH))["items"]
        about = [e for e in events if (e["involvedObject"]["kind"], e["involvedObject"]["name"]) == (kind, name)]
        return any(text in e["message"] for e in about if e["reason"] == "FailedScheduling")

    await cluster.eventually(shown, f"an event about {kind} `{name}` says: {text}")


async def everything_else_continues(cluster: Live) -> None:
    await cluster.gang("fine", 2, gpu=1)
    await cluster.pod("alone", gpu=1)
    await cluster.until(lambda ps: bound("fine", 2)(ps) and bool(where(ps)["alone"]), "everything else continues")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [("maar.dev/max-runtime", "soon"), ("volcano.sh/task-priority", "high"), ("volcano.sh/cooldown-time", "-5m")],
)
def test_a_pod_with_a_broken_annotation(kubeconfig: Path, annotation: str, value: str) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.pod("odd", metadata={"annotations": {annotation: value}})
            await pod_says(cluster, "odd", f"`{annotation}`: ")
            await event_says(cluster, "Pod", "odd", f"`{annotation}`: ")
            await everything_else_continues(cluster)
            await cluster.api.patch(
                PODS.path(NAMESPACE, "odd"), {"metadata": {"annotations": {annotation: None}}}, "merge"
            )
            await cluster.until(lambda ps: bool(where(ps)["odd"]), "it starts without the annotation")

    tell(kubeconfig, story)


def test_a_gang_of_which_one_pod_has_a_broken_annotation(kubeconfig: Path) -> None:
    """The gang waits as a whole: it starts together or not at all."""

    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.group("train", 2)
            await cluster.pod("train-0", metadata=in_gang("train"))
            odd = {"annotations": {**in_gang("train")["annotations"], "maar.dev/max-runtime": "soon"}}
            await cluster.pod("train-1", metadata=odd)
            for name in ("train-0", "train-1"):
                await pod_says(cluster, name, "pod `default/train-1`: `maar.dev/max-runtime`: ")
            await group_says(cluster, "train", "pod `default/train-1`: `maar.dev/max-runtime`: ")
            await everything_else_continues(cluster)
            await cluster.delete("train-1")
            await cluster.pod("train-2", metadata=in_gang("train"))
            await cluster.until(bound("train", 2), "it starts with a valid pod instead")

    tell(kubeconfig, story)


def test_a_group_with_a_negative_minimum(kubeconfig: Path) -> None:
    why = "spec.minMember: expected a number of at least 0, got `-3`"

    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.gang("odd", 2, minimum=-3, gpu=1)
            await group_says(cluster, "odd", why)
            await pod_says(cluster, "odd-0", why)
            await pod_says(cluster, "odd-1", why)
            await event_says(cluster, "PodGroup", "odd", why)
            await everything_else_continues(cluster)
            await cluster.api.patch(
                volcano_podgroup.KIND.resource.path(NAMESPACE, "odd"), {"spec": {"minMember": 2}}, "merge"
            )
            await cluster.until(bound("odd", 2), "it starts with a valid minimum")

    tell(kubeconfig, story)


def test_a_queue_whose_parent_is_missing(kubeconfig: Path) -> None:
    why = "parent queue `nowhere` does not exist"

    async def story(cluster: Live) -> None:
        await cluster.queue("orphan", parent="nowhere")
        async with scheduling(cluster):
            await cluster.gang("odd", 2, gpu=1, group={"queue": "orphan"})
            await pod_says(cluster, "odd-0", why)
            await group_says(cluster, "odd", why)
            await everything_else_continues(cluster)
            await cluster.queue("nowhere")
            await cluster.until(bound("odd", 2), "it starts once the parent exists")

    tell(kubeconfig, story)


def test_queues_that_are_each_others_parents(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        await cluster.queue("a", parent="b")
        await cluster.queue("b", parent="c")
        await cluster.queue("c", parent="a")
        await cluster.queue("child", parent="a")
        async with scheduling(cluster):
            for queue in ("a", "b", "child"):
                await cluster.gang(f"in-{queue}", 1, gpu=1, group={"queue": queue})
            for queue in ("a", "b", "child"):
                await pod_says(cluster, f"in-{queue}-0", "its parents form a cycle: ")
            await group_says(cluster, "in-a", "a -> b -> c -> a")
            await everything_else_continues(cluster)
            await cluster.api.patch(QUEUES.path(name="c"), {"spec": {"parent": ""}}, "merge")
            await cluster.until(bound("in-b", 1), "they start without the cycle")
            await cluster.until(bound("in-child", 1))

    tell(kubeconfig, story)


# -- objects that cannot be decoded


async def allow_anything(cluster: Live, name: str) -> None:
    """Let the spec of objects of this CRD be anything."""
    (crd,) = [
        d for f in OUR_CRDS.glob("*.yaml") for d in yaml.safe_load_all(f.read_text()) if d["metadata"]["name"] == name
    ]
    versions = copy.deepcopy(crd["spec"]["versions"])
    for version in versions:
        spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    await cluster.api.patch(f"{CRDS}/{name}", {"spec": {"versions": versions}}, "merge")


async def until_taken(cluster: Live, create: Callable[[], Awaitable[None]]) -> None:
    """Retry: a server needs some time to apply a changed definition."""

    async def taken() -> bool:
        try:
            await create()
        except ApiError:
            return False
        return True

    await cluster.eventually(taken, "the server accepts it")


def test_a_group_that_does_not_decode(kubeconfig: Path) -> None:
    why = "spec.minMember: expected a whole number, got `many`"

    async def story(cluster: Live) -> None:
        await allow_anything(cluster, GROUPS)
        await until_taken(cluster, lambda: cluster.group("odd", "many"))  # type: ignore[arg-type]
        async with scheduling(cluster):
            for i in range(2):
                await cluster.pod(f"odd-{i}", gpu=1, metadata=in_gang("odd"))
            await pod_says(cluster, "odd-0", why)
            await pod_says(cluster, "odd-1", why)
            await group_says(cluster, "odd", why)
            await event_says(cluster, "PodGroup", "odd", why)
            await everything_else_continues(cluster)
            await cluster.api.patch(
                volcano_podgroup.KIND.resource.path(NAMESPACE, "odd"), {"spec": {"minMember": 2}}, "merge"
            )
            await cluster.until(bound("odd", 2), "it starts with a number")

    tell(kubeconfig, story)


def test_a_group_that_does_not_decode_any_more_keeps_what_runs(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        await allow_anything(cluster, GROUPS)
        async with scheduling(cluster):
            await cluster.gang("train", 2, gpu=8)
            await cluster.until(bound("train", 2))
            path = volcano_podgroup.KIND.resource.path(NAMESPACE, "train")
            broken = {"spec": {"minMember": {"some": "thing"}}}
            await until_taken(cluster, lambda: cluster.api.patch(path, broken, "merge"))  # type: ignore[arg-type,return-value]
            await cluster.pod("train-2", gpu=1, metadata=in_gang("train"))
            await pod_says(cluster, "train-2", "spec.minMember: expected a whole number, got a mapping")
            await cluster.pod("waits", gpu=1)
            pods = await cluster.until(
                lambda ps: any(p.name == "waits" and p.message for p in ps), "its room still counts"
            )
            assert 2 == sum(bool(p.node) and not p.leaving for p in pods)

    tell(kubeconfig, story)


def test_a_queue_that_does_not_decode(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        await allow_anything(cluster, ALL_QUEUES)
        await until_taken(cluster, lambda: cluster.queue("odd", weight="heavy"))
        async with scheduling(cluster):
            await cluster.gang("train", 1, gpu=1, group={"queue": "odd"})
            await pod_says(cluster, "train-0", "queue `odd`: spec.weight: expected a whole number, got `heavy`")
            await group_says(cluster, "train", "queue `odd`: spec.weight: expected a whole number, got `heavy`")
            await everything_else_continues(cluster)
            await cluster.api.patch(QUEUES.path(name="odd"), {"spec": {"weight": 1}}, "merge")
            await cluster.until(bound("train", 1), "it starts with a number")

    tell(kubeconfig, story)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priority": "urgent"}, "spec.priority: expected a whole number, got `urgent`"),
        ({"overhead": {"cpu": "lots"}}, "spec.overhead.cpu: "),
    ],
    ids=["type", "quantity"],
)
def test_a_pod_that_does_not_decode(box: EmbeddedServer, tmp_path: Path, spec: dict[str, Any], why: str) -> None:
    """A real server refuses this pod; a later version may accept it, if the fields have another meaning there."""

    def spoil(name: str) -> None:
        obj = box.api.get(EMBEDDED_PODS, NAMESPACE, name).copy()
        obj["spec"].update(spec)
        box.api.store.write(EMBEDDED_PODS, (NAMESPACE, name), obj)

    async def story(cluster: Live) -> None:
        await cluster.pod("a-foreign-one", schedulerName="another")
        await cluster.pod("odd")
        box.call(spoil, "a-foreign-one")
        box.call(spoil, "odd")
        async with scheduling(cluster):
            await pod_says(cluster, "odd", why)
            await event_says(cluster, "Pod", "odd", why)
            await everything_else_continues(cluster)
            foreign = await cluster.get(PODS.path(NAMESPACE, "a-foreign-one"))
            assert "conditions" not in foreign["status"], "another scheduler reports on its own pods"

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story)
