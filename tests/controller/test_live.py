"""Maar live over a socket: the same scenes on the embedded server and on a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from click.testing import CliRunner
from tests.support.live import NAMESPACE, Live, bound, connected, observing, scheduling

from maar.cli.main import main
from maar.cli.reports.plan_json import plan_data
from maar.controller.record import read_recording
from maar.controller.settings.settings import Settings
from maar.controller.shadow import Shadow
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import PODS, QUEUES
from maar.model.selectors import Requirement, Selector

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
Story = Callable[[Live], Awaitable[None]]


def live(kubeconfig: Path, story: Story, *, gpu: int = 8, nodes: int = 2) -> None:
    """Play a story on a cluster with some nodes."""

    async def tell() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.crds(CRDS)
            await cluster.nodes(nodes, gpu=gpu)
            await story(cluster)

    asyncio.run(tell())


def test_a_gang_starts_whole_and_says_so(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.gang("train", 4, gpu=4)
            pods = await cluster.until(lambda ps: bound("train", 4)(ps) and all(p.phase == "Running" for p in ps))
            assert {"n0", "n1"} == {p.node for p in pods}
            path = volcano_podgroup.KIND.resource.path(NAMESPACE, "train")
            await cluster.eventually(lambda: _phase(cluster, path, "Running"), "phase Running")

    live(kubeconfig, story)


async def _phase(cluster: Live, path: str, phase: str) -> bool:
    return bool((await cluster.get(path)).get("status", {}).get("phase") == phase)


def test_a_gang_without_all_its_pods_waits_and_starts_when_they_come(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.group("train", 2)
            metadata = {"annotations": {"scheduling.k8s.io/group-name": "train"}}
            await cluster.pod("train-0", gpu=1, metadata=metadata)
            pods = await cluster.until(lambda ps: bool(ps) and bool(ps[0].message), "the reason is on the pod")
            assert (
                "needs 2 pods, only 1 can be placed (the others do not exist, are blocked or have ended)"
                == pods[0].message
            )
            assert "" == pods[0].node
            await cluster.pod("train-1", gpu=1, metadata=metadata)
            await cluster.until(bound("train", 2))

    live(kubeconfig, story)


def test_an_impossible_gang_gets_its_reason_and_evicts_nothing(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.priority("high", 1000)
            await cluster.gang("low", 2, gpu=8)
            await cluster.until(bound("low", 2))
            await cluster.gang("huge", 3, gpu=8, priorityClassName="high")
            pods = await cluster.until(
                lambda ps: all(p.message for p in ps if p.group == "huge"), "reasons on the pods of huge"
            )
            assert all(p.node for p in pods if p.group == "low")
            proof = "needs 3 pods together, all nodes hold 2 if nothing else runs: add nodes, or lower its minimum"
            assert {f"never on today's nodes: {proof}"} == {
                p.message.partition(";")[0] for p in pods if p.group == "huge"
            }

    live(kubeconfig, story)


def test_a_whole_gang_makes_room_for_a_more_important_one(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.priority("high", 1000)
            await cluster.gang("low", 2, gpu=8)
            await cluster.until(bound("low", 2))
            await cluster.gang("high", 1, gpu=8, priorityClassName="high")
            await cluster.until(bound("high", 1))
            await cluster.until(
                lambda ps: not [p for p in ps if p.group == "low" and not p.leaving], "all pods of low are evicted"
            )

    live(kubeconfig, story)


def test_queues_share_and_the_default_one_is_made(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        await cluster.queue("research")
        async with scheduling(cluster):
            for i in range(4):
                await cluster.gang(f"prod-{i}", 1, gpu=4)
            await cluster.until(lambda ps: sum(bool(p.node) for p in ps) == 4)
            await cluster.gang("study", 2, gpu=4, group={"queue": "research"})
            pods = await cluster.until(bound("study", 2))
            assert 2 == len([p for p in pods if p.group.startswith("prod") and p.node and not p.leaving])
            await cluster.eventually(lambda: cluster.get(QUEUES.path(name="default")), "the default queue")

    live(kubeconfig, story)


def test_a_restart_finishes_what_was_begun_and_binds_nothing_twice(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        await cluster.gang("train", 4, gpu=4)
        first = next(p for p in await cluster.pods() if p.name == "train-0")
        await cluster.api.bind(NAMESPACE, first.name, first.uid, "n0")
        async with scheduling(cluster):
            await cluster.until(bound("train", 4))
        async with scheduling(cluster) as again:
            await cluster.eventually(lambda: again.loop.cycles > 0)
            assert 0 == again.outbox.counts["done:Bind"]

    live(kubeconfig, story)


def test_pods_of_others_and_nodes_of_others_are_left_alone(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        await cluster.nodes(1, gpu=8, first=7, labels={"pool": "ours"})
        settings = Settings(
            scheduler_names=frozenset({"maar", "volcano"}),
            node_selector=Selector((Requirement("pool", "In", ("ours",)),)),
        )
        async with scheduling(cluster, settings):
            await cluster.pod("mine", gpu=1)
            await cluster.pod("theirs", gpu=1, schedulerName="other")
            await cluster.pod("volcanos", gpu=1, schedulerName="volcano")
            pods = await cluster.until(lambda ps: sum(bool(p.node) for p in ps) == 2)
            assert {"mine": "n7", "volcanos": "n7", "theirs": ""} == {p.name: p.node for p in pods}

    live(kubeconfig, story)


def test_broken_objects_wait_with_a_reason_and_the_rest_continues(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster):
            await cluster.group("lost", 1, queue="nowhere")
            grouped = {"annotations": {"scheduling.k8s.io/group-name": "lost"}}
            await cluster.pod("lost-0", metadata=grouped)
            await cluster.pod("odd", metadata={"annotations": {"maar.dev/max-runtime": "soon"}})
            await cluster.pod("fine")
            pods = await cluster.until(
                lambda ps: all(p.node or p.message for p in ps) and any(p.node for p in ps),
                "all have a node or a reason",
            )
            messages = {p.name: p.message for p in pods if not p.node}
            assert "queue `nowhere` does not exist" == messages["lost-0"]
            assert "maar.dev/max-runtime" in messages["odd"]
            assert ["fine"] == [p.name for p in pods if p.node]

    live(kubeconfig, story)


def test_many_writers_at_once_lose_nothing(kubeconfig: Path) -> None:
    """Many tasks create, grow and delete gangs at once: at the end all existing gangs run, none in part."""

    async def story(cluster: Live) -> None:
        async with scheduling(cluster):

            async def writer(number: int) -> None:
                for turn in range(3):
                    name = f"w{number}-{turn}"
                    await cluster.gang(name, 3, gpu=0)
                    if turn == 1:
                        await cluster.delete(f"{name}-2")
                        await cluster.pod(f"{name}-3", metadata={"annotations": {"scheduling.k8s.io/group-name": name}})

            await asyncio.gather(*(writer(i) for i in range(10)))
            pods = await cluster.until(lambda ps: len(ps) == 90 and all(p.node for p in ps), "90 pods have a node")
            assert 30 == len({p.group for p in pods})

    live(kubeconfig, story)


def test_what_is_promised_survives_a_restart(kubeconfig: Path) -> None:
    """The victim is slow; the scheduler restarts meanwhile and keeps the room reserved for the same job."""

    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        async with scheduling(cluster):
            for name in ("low", "other"):
                slow = {"finalizers": ["test.dev/wait"]}
                await cluster.pod(name, gpu=8, terminationGracePeriodSeconds=3, metadata=slow)
            await cluster.until(lambda ps: len(ps) == 2 and all(p.node for p in ps), "the cluster is full")
            await cluster.pod("high", gpu=8, priorityClassName="high")
            await cluster.until(lambda ps: any(p.nominated for p in ps), "the nomination is on the pod")
        async with scheduling(cluster):
            await cluster.pod("small", gpu=1)
            await cluster.until(lambda ps: any(p.name == "small" and p.message for p in ps), "small has a reason")
            for name in ("low", "other"):
                await cluster.api.patch(PODS.path(NAMESPACE, name), {"metadata": {"finalizers": None}}, "merge")
            pods = await cluster.until(lambda ps: any(p.name == "high" and p.node for p in ps))
            assert "" == next(p.node for p in pods if p.name == "small")

    live(kubeconfig, story)


def test_promised_room_passes_to_a_later_pod_of_higher_priority(kubeconfig: Path) -> None:
    """The victim is slow, and a more important pod comes meanwhile: it gets the node, and nothing else is evicted."""

    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        await cluster.priority("higher", 2000)
        async with scheduling(cluster):
            slow = {"finalizers": ["test.dev/wait"]}
            await cluster.pod("low", gpu=8, metadata=slow)
            await cluster.pod("top", gpu=8, priorityClassName="higher")
            await cluster.until(lambda ps: len(ps) == 2 and all(p.node for p in ps), "the cluster is full")
            await cluster.pod("early", gpu=8, priorityClassName="high")
            await cluster.until(lambda ps: any(p.name == "early" and p.nominated for p in ps), "it is promised room")
            await cluster.pod("late", gpu=8, priorityClassName="higher")
            pods = await cluster.until(
                lambda ps: (
                    any(p.name == "late" and p.nominated for p in ps)
                    and not any(p.name == "early" and p.nominated for p in ps)
                ),
                "the promise is passed on",
            )
            assert ["low"] == [p.name for p in pods if p.leaving]
            await cluster.let_go("low")
            pods = await cluster.until(lambda ps: any(p.name == "late" and p.node for p in ps), "late is bound")
            assert {"top", "late"} == {p.name for p in pods if p.node and not p.leaving}

    live(kubeconfig, story)


def test_a_recording_is_decided_again_to_the_byte(kubeconfig: Path, tmp_path: Path) -> None:
    path = tmp_path / "live.rec"

    async def story(cluster: Live) -> None:
        async with scheduling(cluster, record=path):
            await cluster.priority("high", 1000)
            await cluster.gang("low", 2, gpu=8)
            await cluster.until(bound("low", 2))
            await cluster.gang("high", 1, gpu=8, priorityClassName="high")
            await cluster.gang("huge", 9, gpu=8)
            await cluster.until(bound("high", 1))

    live(kubeconfig, story)
    cycles = list(read_recording(path))
    assert any(cycle.plan.evict for cycle in cycles)
    result = CliRunner().invoke(main, ["plan", str(path), "-o", "json"])
    assert 0 == result.exit_code, result.output
    again = msgspec.json.decode(result.stdout)["cycles"]
    assert [plan_data(cycle.plan) for cycle in cycles] == again


def test_shadow_mode_writes_nothing_and_compares(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with observing(cluster) as shadowed:
            shadow = Shadow()
            shadowed.loop.on_cycle.append(shadow.on_cycle)
            await cluster.gang("train", 2, gpu=8)
            await cluster.eventually(lambda: "2 only by Maar" in shadow.line(), "two pods would be started")
            pods = await cluster.pods()
            assert ["", ""] == [p.node for p in pods]
            await cluster.api.bind(NAMESPACE, pods[0].name, pods[0].uid, "n0")
            await cluster.api.bind(NAMESPACE, pods[1].name, pods[1].uid, "n1")
            await cluster.eventually(
                lambda: shadow.comparison.same_node + shadow.comparison.other_node == 2, "both are compared"
            )
            assert 0 == shadow.comparison.only_theirs

    live(kubeconfig, story)
