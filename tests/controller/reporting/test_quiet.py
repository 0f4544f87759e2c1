"""How often Maar writes: events once, statuses when they change, and nothing if nothing happens."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.live import EVENTS_PATH, NAMESPACE, Live, bound, scheduling, tell

from maar.controller.scheduler import Scheduler
from maar.controller.settings.settings import Settings
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import PODS

RESTLESS = Settings(resync=0.05)
"""All jobs are looked at twenty times a second: a few seconds have as many resyncs as an hour with the default."""
A_LONG_TIME = 110
"""Number of cycles; they take longer than the delays of reasons, counts and queues, up to five seconds."""
Versions = dict[str, str]


async def until_quiet(cluster: Live, scheduler: Scheduler) -> Versions:
    """Wait until nothing has changed for many cycles."""
    before: Versions = {}
    for _ in range(5):
        ends = scheduler.loop.cycles + A_LONG_TIME
        await cluster.eventually(lambda: scheduler.loop.cycles >= ends, "many cycles have passed")  # noqa: B023
        after = await cluster.versions()
        if before == after:
            return after
        changed = {name for name, _ in before.items() ^ after.items()}
        before = after
    raise AssertionError(f"never quiet: {sorted(changed)}")


async def events(cluster: Live, reason: str) -> list[dict[str, Any]]:
    return [e for e in (await cluster.get(EVENTS_PATH))["items"] if e["reason"] == reason]


async def until_events(cluster: Live, reason: str, count: int) -> list[dict[str, Any]]:
    async def there() -> bool:
        return len(await events(cluster, reason)) >= count

    await cluster.eventually(there, f"{count} events {reason}")
    return await events(cluster, reason)


def about(found: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((e["involvedObject"]["kind"], e["involvedObject"]["name"]) for e in found)


def test_if_nothing_happens_nothing_is_written(kubeconfig: Path) -> None:
    """Gangs run, one waits with nodes locked for it, one can never run, one is broken, a queue is over its share."""

    async def story(cluster: Live) -> None:
        await cluster.queue("research")
        async with scheduling(cluster, RESTLESS) as scheduler:
            await cluster.gang("runs", 3, gpu=4)
            await cluster.gang("also", 2, gpu=2, group={"queue": "research"})
            await cluster.until(lambda ps: bound("runs", 3)(ps) and bound("also", 2)(ps))
            await cluster.gang("waits", 2, gpu=8)
            await cluster.gang("never", 9, gpu=8)
            await cluster.gang("lost", 1, group={"queue": "nowhere"})
            await cluster.pod("odd", metadata={"annotations": {"maar.dev/max-runtime": "soon"}})
            await cluster.until(lambda ps: all(p.node or p.message for p in ps), "all have a node or a reason")
            before = await until_quiet(cluster, scheduler)
            done = (scheduler.executor.counts.done, scheduler.events.counts.written)
            assert before == await until_quiet(cluster, scheduler)
            assert done == (scheduler.executor.counts.done, scheduler.events.counts.written)
            assert (0, 0) == (scheduler.executor.counts.failed, scheduler.events.counts.repeated)
        assert before == await cluster.versions(), "a stop writes nothing"
        async with scheduling(cluster, RESTLESS) as again:
            after = await until_quiet(cluster, again)
            changed = {name for name, _ in before.items() ^ after.items()}
            assert set() == changed, "a new Maar finds what was written"
            assert {1} == set(about(await events(cluster, "FailedScheduling")).values())

    tell(kubeconfig, story, nodes=2)


def test_one_event_says_that_a_gang_was_scheduled(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster, RESTLESS) as scheduler:
            await cluster.gang("train", 4, gpu=2)
            await cluster.pod("alone", gpu=1)
            pods = await cluster.until(lambda ps: bound("train", 4)(ps) and all(p.node for p in ps))
            await until_events(cluster, "Scheduled", 2)
            await until_quiet(cluster, scheduler)
            found = await events(cluster, "Scheduled")
            assert {("PodGroup", "train"): 1, ("Pod", "alone"): 1} == about(found)
            (node,) = [p.node for p in pods if p.name == "alone"]
            messages = {e["involvedObject"]["name"]: (e["message"], "series" in e) for e in found}
            alone = f"Successfully assigned {NAMESPACE}/alone to {node}"
            assert {"train": ("bound 4 pods of the gang", False), "alone": (alone, False)} == messages

    tell(kubeconfig, story, nodes=2)


def test_an_event_for_each_pod_on_request(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster, Settings(resync=0.05, pod_events=True)) as scheduler:
            await cluster.gang("train", 3, gpu=2)
            await cluster.pod("alone", gpu=1)
            pods = await cluster.until(lambda ps: bound("train", 3)(ps) and all(p.node for p in ps))
            await until_events(cluster, "Scheduled", 5)
            await until_quiet(cluster, scheduler)
            found = await events(cluster, "Scheduled")
            assert {("PodGroup", "train"): 1, **{("Pod", p.name): 1 for p in pods}} == about(found)
            messages = {
                e["involvedObject"]["name"]: e["message"] for e in found if e["involvedObject"]["kind"] == "Pod"
            }
            assert {p.name: f"Successfully assigned {NAMESPACE}/{p.name} to {p.node}" for p in pods} == messages
            assert not any("series" in e for e in found)

    tell(kubeconfig, story, nodes=2)


def test_a_reason_is_reported_once_and_again_when_it_changes(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster, RESTLESS) as scheduler:
            await cluster.gang("huge", 2, gpu=9)
            await cluster.until(lambda ps: len(ps) == 2 and all(p.message for p in ps), "huge has its reason")
            await until_quiet(cluster, scheduler)
            (event,) = await events(cluster, "FailedScheduling")
            assert ("PodGroup", "huge", "Warning") == (*next(iter(about([event]))), event["type"])
            pods = await cluster.pods()
            group = await cluster.get(volcano_podgroup.KIND.resource.path(NAMESPACE, "huge"))
            (condition,) = [c for c in group["status"]["conditions"] if c["type"] == "Unschedulable"]
            assert {event["message"]} == {p.message for p in pods} | {condition["message"]}
            assert event["message"].startswith("never on today's nodes: 1 pod needs 9 nvidia.com/gpu")

            await cluster.nodes(1, gpu=8, first=5)
            await until_quiet(cluster, scheduler)
            assert [event] == await events(cluster, "FailedScheduling"), "another number of nodes is no news"
            await cluster.api.delete(PODS.path(NAMESPACE, "huge-1"))
            await cluster.until(lambda ps: {"WaitingForMembers"} == {p.reason for p in ps}, "another reason")
            await until_quiet(cluster, scheduler)
            both = await events(cluster, "FailedScheduling")
            assert {event["message"], "needs 2 pods, only 1 can be placed"} == {
                e["message"].partition(" (")[0] for e in both
            }

    tell(kubeconfig, story, nodes=2)


def test_cycles_are_no_closer_than_the_minimum_interval(kubeconfig: Path) -> None:
    """Whatever the number of events: pods are created one after the other, and a few cycles bind all of them."""

    async def story(cluster: Live) -> None:
        begins: list[float] = []
        async with scheduling(cluster, Settings(min_interval=0.4)) as scheduler:
            scheduler.loop.on_cycle.append(lambda cycle: begins.append(cycle.now))
            for i in range(30):
                await cluster.pod(f"p{i}")
            await cluster.until(lambda pods: sum(bool(pod.node) for pod in pods) == 30, "all have nodes")
        assert len(begins) < 15
        assert all(later - earlier >= 0.39 for earlier, later in pairwise(begins))

    tell(kubeconfig, story)
