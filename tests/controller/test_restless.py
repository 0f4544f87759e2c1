"""Owners who change their objects all the time, on the embedded server: each kind of write, and what they get by it.

An owner who changes a running pod or an elastic job loses it as any other. One who changes what waits delays only
herself. On a real server with a client that does it: tests/real/test_restless.py.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.controller.test_fences import leading
from tests.support.elastic_story import CONFIG, Play, playing
from tests.support.live import NAMESPACE, OUR_CRDS, Live, Seen, bound, connected, scheduling, tell
from tests.support.restless import Change, any_annotation, restless, what_maar_reads

from maar.controller.settings.brakes import BrakeSettings
from maar.controller.settings.settings import Settings
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.parts.operators import TrainingOperator
from maar.embedded.server import EmbeddedServer
from maar.kube.wire.api_resources import EVENTS, LEASES, PODS
from maar.kube.write.patience import MOVES
from maar.model.tasks import QUEUE_GATE

CHANGES = pytest.mark.parametrize("change", [any_annotation, what_maar_reads])


@pytest.fixture
def kubeconfig(box: EmbeddedServer, tmp_path: Path) -> Path:
    return box.kubeconfig(tmp_path / "kubeconfig")


def is_bound(name: str) -> Callable[[list[Seen]], bool]:
    return lambda pods: any(pod.name == name and pod.node and not pod.leaving for pod in pods)


# -- evictions


@CHANGES
@pytest.mark.parametrize("delete", [False, True], ids=["evict", "delete"])
def test_a_tenant_who_changes_her_running_pods_is_evicted(
    box: EmbeddedServer, kubeconfig: Path, change: Change, delete: bool
) -> None:
    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        async with scheduling(cluster, Settings(delete_victims=delete)) as scheduler:
            await cluster.gang("hers", 4, gpu=4)
            await cluster.until(bound("hers", 4))
            with restless(box, "hers", change=change) as owner:
                await cluster.gang("mine", 2, gpu=8, priorityClassName="high")
                await cluster.until(bound("mine", 2), "the important gang runs")
            assert 4 == scheduler.outbox.counts["done:Delete" if delete else "done:Evict"]
            assert owner.changes.total() > 0

    tell(kubeconfig, story)


def test_all_victims_of_a_gang_stand_on_the_lease_as_decided_before_one_is_evicted_by_uid(
    box: EmbeddedServer, kubeconfig: Path
) -> None:
    """The state of the Lease at each eviction: plain intents at first, then all pods that are left with their uids."""

    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        async with leading(cluster):
            await cluster.gang("hers", 3, gpu=5)
            await cluster.until(bound("hers", 3))
            uids = {pod.name: pod.uid for pod in await cluster.pods()}
            stood: list[tuple[str, list[str]]] = []
            with restless(box, "hers") as owner:

                def look(method: str, path: str) -> None:
                    if path.endswith("/eviction"):
                        lease = box.api.get(box.api.kind(*LEASE_KIND), NAMESPACE, "maar").obj["metadata"]
                        text = lease["annotations"].get("maar.dev/evictions", "{}")
                        named = json.loads(text).get("evict", {}).get(PODS.path(NAMESPACE), {})
                        assert all(uids[name] == uid for name, (uid, _) in named.items())
                        stood.append((path.split("/")[-2], sorted(named)))
                    owner(method, path)

                box.faults.before = look
                await cluster.gang("mine", 3, gpu=8, priorityClassName="high")
                await cluster.until(bound("mine", 3), "the important gang runs")
            first = {name for name, named in stood if not named}
            assert {"hers-0", "hers-1", "hers-2"} == first, "each was sent for its version first"
            decided = [(name, named) for name, named in stood if named]
            assert ["hers-0", "hers-1", "hers-2"] == decided[0][1], "all of them are decided together"
            assert all(name in named for name, named in decided), "what is evicted by uid stands as decided"
            await cluster.eventually(lambda: _stands_no_more(cluster), "what is done is taken off")

    tell(kubeconfig, story, nodes=3)


LEASE_KIND = (LEASES.group, LEASES.version, LEASES.plural)


async def _stands_no_more(cluster: Live) -> bool:
    notes = (await cluster.get(LEASES.path(NAMESPACE, "maar")))["metadata"]["annotations"]
    return not {"maar.dev/evictions", "maar.dev/intents"} & notes.keys()


def test_a_budget_still_protects_her_pods_and_only_as_far_as_it_goes(box: EmbeddedServer, kubeconfig: Path) -> None:
    """Of two pods that are jobs of their own, the budget keeps one."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "one", "namespace": NAMESPACE},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"of": "hers"}}},
    }

    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        await cluster.create(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets", budget)
        async with scheduling(cluster):
            for i in range(2):
                await cluster.pod(f"hers-{i}", gpu=8, metadata={"labels": {"of": "hers"}})
            await cluster.until(lambda ps: all(pod.phase == "Running" for pod in ps) and len(ps) == 2)
            with restless(box, "hers"):
                await cluster.pod("mine-0", gpu=8, priorityClassName="high")
                await cluster.until(is_bound("mine-0"), "one of her pods goes")
            assert 1 == sum(pod.name.startswith("hers") and not pod.leaving for pod in await cluster.pods())

    tell(kubeconfig, story)


# -- a successor


async def put_lease(cluster: Live, epoch: int, victims: dict[str, tuple[str, int | None]]) -> None:
    pods = PODS.path(NAMESPACE)
    notes = {
        "maar.dev/epoch": "4",
        "maar.dev/intents": json.dumps({pods: sorted(victims)}),
        "maar.dev/evictions": json.dumps({"epoch": epoch, "evict": {pods: victims}}),
    }
    head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    body = {"metadata": {"name": "maar", "namespace": NAMESPACE, "annotations": notes}}
    spec = {"spec": {"holderIdentity": "dead_0_0", "leaseDurationSeconds": 1}}
    await cluster.api.create(LEASES.path(NAMESPACE), head | body | spec)


async def two_that_run(cluster: Live, **queues: str) -> dict[str, str]:
    """Two pods that run, with a finalizer, so that they stay when they go; their uids."""
    for name in ("a", "b"):
        notes = {"scheduling.volcano.sh/queue-name": queues[name]} if name in queues else {}
        await cluster.pod(name, gpu=8, metadata={"finalizers": ["test.dev/wait"], "annotations": notes})
    async with scheduling(cluster):
        await cluster.until(lambda ps: all(pod.phase == "Running" for pod in ps) and len(ps) == 2)
    return {pod.name: pod.uid for pod in await cluster.pods()}


def test_a_successor_carries_out_decided_evictions_before_it_decides(box: EmbeddedServer, kubeconfig: Path) -> None:
    """Nobody needs the room any more, and the owner goes on changing her pods. Only the pods of those uids go."""

    async def story(cluster: Live) -> None:
        uids = await two_that_run(cluster)
        await put_lease(cluster, 4, {"a": (uids["a"], 7), "b": ("of an earlier pod", 7), "gone": ("u", None)})
        going: list[bool] = []
        with restless(box, "a", "b"):
            async with leading(cluster) as (scheduler, _):
                scheduler.loop.on_cycle.append(lambda cycle: going.append(_is_going(box, "a")))
                await cluster.eventually(lambda: bool(going), "it decides")
                assert going[0], "the pod was going before the first decision"
                metadata = (await cluster.get(PODS.path(NAMESPACE, "a")))["metadata"]
                assert 7 == metadata["deletionGracePeriodSeconds"]
                assert "deletionTimestamp" not in (await cluster.get(PODS.path(NAMESPACE, "b")))["metadata"]
                await cluster.eventually(lambda: _stands_no_more(cluster), "what is carried out is taken off the Lease")
                await cluster.eventually(lambda: _is_told(cluster, "a"), "the owner is told")
            # The late copy of the old leader finds the pod going.
            await cluster.api.evict(NAMESPACE, "a", uids["a"], 7)
        assert uids == {pod.name: pod.uid for pod in await cluster.pods()}
        assert ["a"] == [pod.name for pod in await cluster.pods() if pod.leaving]
        for name in ("a", "b"):
            await cluster.let_go(name)

    tell(kubeconfig, story)


def _is_going(box: EmbeddedServer, name: str) -> bool:
    pod = box.api.get(box.api.kind(PODS.group, PODS.version, PODS.plural), NAMESPACE, name).obj
    return "deletionTimestamp" in pod["metadata"]


async def _is_told(cluster: Live, pod: str) -> bool:
    events = (await cluster.get(EVENTS.path(NAMESPACE)))["items"]
    return any(e["reason"] == "Preempted" and e["regarding"]["name"] == pod for e in events)


@pytest.mark.parametrize("why", ["older epoch", "paused"])
def test_what_an_older_maar_left_on_the_lease_is_not_carried_out_and_neither_is_anything_while_evictions_are_paused(
    box: EmbeddedServer, kubeconfig: Path, why: str
) -> None:
    async def story(cluster: Live) -> None:
        uids = await two_that_run(cluster)
        await put_lease(cluster, 3 if why == "older epoch" else 4, {"a": (uids["a"], 7)})
        async with leading(cluster) as (scheduler, _):
            if why == "paused":
                scheduler.brakes.settings = BrakeSettings(paused=True)
            await cluster.eventually(lambda: scheduler.loop.cycles > 0, "it decides")
            pod = await cluster.get(PODS.path(NAMESPACE, "a"))
            assert "deletionTimestamp" not in pod["metadata"]
            assert "maar.dev/Fenced" in [c["type"] for c in pod["status"]["conditions"]]
        for name in ("a", "b"):
            await cluster.let_go(name)

    tell(kubeconfig, story)


def test_a_successor_leaves_out_decided_evictions_from_queues_that_the_brakes_protect(
    box: EmbeddedServer, kubeconfig: Path
) -> None:
    async def story(cluster: Live) -> None:
        await cluster.queue("safe")
        uids = await two_that_run(cluster, a="safe")
        await put_lease(cluster, 4, {name: (uid, 7) for name, uid in uids.items()} | {"gone": ("u", None)})
        async with leading(cluster) as (scheduler, _):
            scheduler.brakes.settings = BrakeSettings(queues_off=("safe",))
            seen: list[set[str]] = []
            scheduler.loop.on_cycle.append(lambda cycle: seen.append(set(scheduler.cache.changed)))
            await cluster.eventually(lambda: bool(seen), "it decides")
            assert (False, True) == (_is_going(box, "a"), _is_going(box, "b"))
            pod = await cluster.get(PODS.path(NAMESPACE, "a"))
            assert "maar.dev/Fenced" in [c["type"] for c in pod["status"]["conditions"]]
            assert {"default/a", "default/b"} == seen[0], "the first cycle sees all jobs as new"
        for name in ("a", "b"):
            await cluster.let_go(name)

    tell(kubeconfig, story)


# -- binds


@CHANGES
def test_an_owner_who_changes_her_waiting_pods_delays_only_herself(
    box: EmbeddedServer, kubeconfig: Path, change: Change
) -> None:
    """There is room for one gang. Hers comes first, and cannot be bound as long as she changes it."""

    async def story(cluster: Live) -> None:
        async with scheduling(cluster) as scheduler:
            with restless(box, "hers", change=change) as owner:
                await cluster.gang("hers", 2, gpu=8)
                await cluster.eventually(lambda: owner.changes["binding"] > MOVES, "her binds are refused")
                await cluster.gang("mine", 2, gpu=8)
                await cluster.until(bound("mine", 2), "others get the room")
                await cluster.until(
                    lambda ps: all("changed again and again" in p.message for p in ps if p.group == "hers"),
                    "she is told why",
                )
                (said, *_) = {pod.message for pod in await cluster.pods() if pod.group == "hers"}
                assert re.search(r"next try at \d\d:\d\d:\d\d UTC, and until then others get its room", said)
                for i in range(2):
                    await cluster.delete(f"mine-{i}")
            await cluster.until(bound("hers", 2), "her gang runs when she stops")
            assert not scheduler.cache.rests("default/hers")

    tell(kubeconfig, story)


# -- status, gates


@CHANGES
def test_an_owner_who_changes_her_pods_is_told_why_they_wait(
    box: EmbeddedServer, kubeconfig: Path, change: Change
) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            with restless(box, "hers", change=change) as owner:
                await cluster.gang("hers", 2, gpu=100)
                await cluster.until(lambda ps: len(ps) == 2 and all(pod.message for pod in ps), "both are told")
            assert 2 <= owner.changes["status"]

    tell(kubeconfig, story)


@CHANGES
def test_a_gate_is_removed_from_a_pod_that_changes_all_the_time(
    box: EmbeddedServer, kubeconfig: Path, change: Change
) -> None:
    """The patch tests the uid and the gates, and nothing else."""

    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            with restless(box, "hers", change=change) as owner:
                await cluster.gang("hers", 1, gpu=1, schedulingGates=[{"name": QUEUE_GATE}])
                await cluster.eventually(lambda: _has_no_gate(cluster), "the gate is removed")
            assert 1 <= owner.changes["hers-0"]

    tell(kubeconfig, story)


async def _has_no_gate(cluster: Live) -> bool:
    return not (await cluster.get(PODS.path(NAMESPACE, "hers-0")))["spec"].get("schedulingGates")


# -- elastic jobs: resize, suspend, resume


@pytest.fixture
def training(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A cluster with a training operator, in which pods start and stop quickly."""
    server = EmbeddedServer(parts=[Kubelets(start=0.01, stop=0.01), TrainingOperator(0.0)])
    server.start()
    yield server
    server.stop()


def play(box: EmbeddedServer, folder: Path, scene: Callable[[Play], Awaitable[None]], *, judges: bool = True) -> None:
    """Play a scene on one node with 8 GPUs."""
    config = folder / "maar.yaml"
    config.write_text(CONFIG)

    async def main() -> None:
        async with connected(box.kubeconfig(folder / "kubeconfig")) as live:
            await live.crds(OUR_CRDS)
            async with playing(live, judges=judges) as stage:
                await stage.add_nodes(1)
                async with scheduling(live, config=config):
                    await scene(stage)

    asyncio.run(main())


def her_size(job: dict[str, Any], number: int) -> None:
    """She sets the number of workers herself, sometimes to fewer than Maar would."""
    any_annotation(job, number)
    if "pytorchReplicaSpecs" in job["spec"]:
        job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = (8, 1)[number % 2]


def her_fence(job: dict[str, Any], number: int) -> None:
    """She writes what Maar writes to fence an object, and what it remembers there."""
    notes = job["metadata"].setdefault("annotations", {})
    notes.update({"maar.dev/fenced": f"epoch {number}", "maar.dev/elastic": json.dumps({"written": number % 9})})


JOB_CHANGES = pytest.mark.parametrize("change", [any_annotation, her_size, her_fence])


@JOB_CHANGES
def test_an_owner_who_changes_her_elastic_job_gives_up_workers_as_any_other(
    training: EmbeddedServer, tmp_path: Path, change: Change
) -> None:
    async def scene(stage: Play) -> None:
        await stage.pytorch("hers", 1, 8)
        assert {"hers": 8} == await stage.settles("it takes everything")
        with restless(training, "hers", change=change) as owner:
            await stage.pytorch("mine", 4, 4)
            await stage.live.until(lambda ps: runs("mine", ps) == 4, "another job gets its workers")
        assert owner.changes["hers"] > 2

    play(training, tmp_path, scene, judges=change is any_annotation)


@JOB_CHANGES
def test_an_owner_who_changes_her_elastic_job_is_suspended_as_any_other(
    training: EmbeddedServer, tmp_path: Path, change: Change
) -> None:
    async def scene(stage: Play) -> None:
        await stage.pytorch("hers", 4, 8)
        assert {"hers": 8} == await stage.settles("it takes everything")
        with restless(training, "hers", change=change) as owner:
            await stage.pytorch("mine", 6, 6, priority=5)
            await stage.live.until(lambda ps: runs("mine", ps) == 6, "a more important job gets its workers")
        assert owner.changes["hers"] > 2

    play(training, tmp_path, scene, judges=change is any_annotation)


def test_an_owner_who_changes_her_suspended_job_delays_only_herself(training: EmbeddedServer, tmp_path: Path) -> None:
    async def scene(stage: Play) -> None:
        with restless(training, "hers") as owner:
            await stage.pytorch("hers", 8, 8)
            await stage.live.eventually(lambda: owner.changes["hers"] > MOVES, "its start is refused")
            await stage.pytorch("mine", 8, 8)
            await stage.live.until(lambda ps: runs("mine", ps) == 8, "another job gets the room")
            assert 0 == runs("hers", await stage.live.pods())
        await stage.finish("mine")
        await stage.live.until(lambda ps: runs("hers", ps) == 8, "it starts when she stops")

    play(training, tmp_path, scene)


def test_an_owner_who_changes_her_growing_job_delays_only_herself(training: EmbeddedServer, tmp_path: Path) -> None:
    """Both could use the room that becomes free, and hers comes first."""

    async def scene(stage: Play) -> None:
        await stage.pytorch("hers", 1, 7)
        await stage.pytorch("mine", 1, 7)
        await stage.gang("full", 1, 6, priority=5)
        await stage.live.until(lambda ps: runs("hers", ps) == runs("mine", ps) == 1 and runs("full", ps) == 1)
        with restless(training, "hers") as owner:
            await stage.live.delete("full-0")
            await stage.live.eventually(lambda: owner.changes["hers"] > MOVES, "its growth is refused")
            await stage.live.until(lambda ps: runs("mine", ps) == 7, "another job gets the room")

    play(training, tmp_path, scene)


def runs(job: str, pods: list[Seen]) -> int:
    return sum(pod.name.startswith(f"{job}-") and pod.phase == "Running" and not pod.leaving for pod in pods)
