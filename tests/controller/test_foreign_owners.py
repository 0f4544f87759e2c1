"""Owner references to objects of another tenant: nothing is written on them, and no event appears in her namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.live import Live, scheduling, tell

from maar.controller.settings.settings import Settings
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import EVENTS, NODES, PODS, QUEUES

JOBS = "/apis/batch/v1/namespaces/{}/jobs"
GOOD, EVIL = "default", "evil"


def _template(**metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "100"}}}
    spec = {"schedulerName": "maar", "restartPolicy": "Never", "containers": [container]}
    return {"metadata": metadata, "spec": spec}


async def _forged(cluster: Live, job: dict[str, Any], node: dict[str, Any], queue: dict[str, Any]) -> None:
    """Pods of `evil` that name objects which are not hers as their controllers; each waits, so that Maar tells it.

    A garbage collector deletes pods whose owner does not exist.
    """
    theirs = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job["metadata"]["uid"]}
    on = {"apiVersion": "v1", "kind": "Node", "name": "n0", "uid": node["metadata"]["uid"]}
    references = [
        theirs,
        {**theirs, "name": f"../../{GOOD}/jobs/train"},
        {**theirs, "name": f"{GOOD}/train"},
        {**theirs, "uid": "no-such-uid"},
        {**theirs, "name": "\x1b[2J\u202e"},
        on,
        {"apiVersion": "v1", "kind": "Namespace", "name": GOOD, "uid": "x"},
        {
            "apiVersion": QUEUES.api_version,
            "kind": "Queue",
            "name": queue["metadata"]["name"],
            "uid": queue["metadata"]["uid"],
        },
    ]
    for i, reference in enumerate(references):
        metadata: dict[str, Any] = {
            "name": f"forged-{i}",
            "namespace": EVIL,
            "ownerReferences": [{**reference, "controller": True}],
        }
        metadata["labels"] = {"batch.kubernetes.io/job-name": "train", "job-name": "train"} if i == 0 else {}
        await cluster.api.create(
            PODS.path(EVIL), {"apiVersion": "v1", "kind": "Pod", **_template(), "metadata": metadata}
        )


def test_nothing_is_written_on_the_owner_of_another_tenant(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EVIL}}
        await cluster.create("/api/v1/namespaces", namespace)
        await cluster.queue("theirs")
        head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": GOOD}}
        spec = {"suspend": True, "parallelism": 2, "completions": 2, "template": _template()}
        await cluster.create(JOBS.format(GOOD), {**head, "spec": spec})
        theirs = (f"{JOBS.format(GOOD)}/train", QUEUES.path(name="theirs"))

        async def contents() -> list[Any]:
            """What the objects say, without their status, which controllers write."""
            found = [await cluster.get(path) for path in theirs]
            said = ("annotations", "labels", "finalizers", "ownerReferences")
            return [(item["spec"], {key: item["metadata"].get(key) for key in said}) for item in found]

        async with scheduling(cluster, Settings(pod_events=True)):

            async def noted() -> bool:
                job = await cluster.get(theirs[0])
                return known.WHY in job["metadata"].get("annotations", {})

            async def own_events() -> list[str]:
                items = (await cluster.get(EVENTS.path(GOOD)))["items"]
                return [event["note"] for event in items if event["regarding"].get("name") == "train"]

            await cluster.eventually(noted, "the job has its own note")
            await cluster.eventually(own_events, "and its own event")
            told_before = await own_events()
            before = await contents()
            job, queue = [await cluster.get(path) for path in theirs]
            await _forged(cluster, job, await cluster.get(NODES.path(name="n0")), queue)

            async def told() -> bool:
                pods = (await cluster.get(PODS.path(EVIL)))["items"]
                return all(pod.get("status", {}).get("conditions") for pod in pods)

            await cluster.eventually(told, "each forged pod is told why it waits")

            async def said() -> bool:
                """The garbage collector may have removed pods whose owners do not exist."""
                pods = (await cluster.get(PODS.path(EVIL)))["items"]
                regarding = {event["regarding"]["name"] for event in (await cluster.get(EVENTS.path(EVIL)))["items"]}
                return bool(pods) and {pod["metadata"]["name"] for pod in pods} <= regarding

            await cluster.eventually(said, "events are in her own namespace")
            assert before == await contents(), "nothing is written on theirs"
            events = (await cluster.get(EVENTS.path(GOOD)))["items"]
            assert [] == [event["note"] for event in events if "forged" in str(event)]
            assert told_before == await own_events()

    tell(kubeconfig, story)
