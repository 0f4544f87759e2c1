"""Gangs that are created suspended, as `maar submit` does it, on the embedded server.

They start on the nodes of any pool, and while they wait they say so as any other job does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from tests.support.live import GPU, NAMESPACE, OUR_CRDS, Live, connected, scheduling

from maar.cli.main import main
from maar.config.file import default_text
from maar.controller.scheduler import Scheduler
from maar.embedded.parts.jobs import Jobs
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.server import EmbeddedServer
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Object

POOL = "maar.dev/accelerator"
POOLS = f"""
- name: a100
  nodes: {{{POOL}: a100}}
  rate-limit: 0s
- name: h100
  nodes: {{{POOL}: h100}}
  rate-limit: 0s
"""
JOBS = Resource("batch", "v1", "jobs", "Job", True, Object)
EVENTS = Resource("", "v1", "events", "Event", True, Object)
Story = Callable[[Live, Scheduler], Awaitable[None]]


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(parts=[Kubelets(start=0.01, stop=0.01), Jobs()])
    server.start()
    yield server
    server.stop()


@pytest.fixture
def kubeconfig(server: EmbeddedServer, tmp_path: Path) -> Path:
    return server.kubeconfig(tmp_path / "kubeconfig")


def tell(kubeconfig: Path, story: Story) -> None:
    """Play a story on the demo's two pools of six nodes with 8 GPUs each."""

    async def run() -> None:
        async with connected(kubeconfig) as live:
            await live.crds(OUR_CRDS)
            for i, pool in enumerate(("a100", "h100")):
                await live.nodes(6, gpu=8, first=6 * i, labels={POOL: pool})
            config = config_of(kubeconfig)
            text = default_text().replace(", elect, allocate", ", allocate").replace(", reserve", "")
            config.write_text(text + POOLS.lstrip())  # no locks: of two gangs that wait, only one is elected
            async with scheduling(live, config=config) as scheduler:
                await story(live, scheduler)

    asyncio.run(run())


def gang(name: str, pods: int, gpu: int = 8, **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "train", "resources": {"limits": {GPU: str(gpu)}}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", **more}
    template = {"spec": {"schedulerName": "maar", "restartPolicy": "Never", "containers": [container]}}
    about = {"name": name, "namespace": NAMESPACE, "annotations": {"maar.dev/gang": "true"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": {**spec, "template": template}}


def config_of(kubeconfig: Path) -> Path:
    return kubeconfig.parent / "maar.yaml"


async def maar(kubeconfig: Path, *arguments: str, given: str = "") -> str:
    def run() -> str:
        asks = arguments[0] in ("jobs", "queues", "why")
        args = [
            *arguments,
            "--kubeconfig",
            str(kubeconfig),
            *(["--config", str(config_of(kubeconfig))] if asks else []),
        ]
        result = CliRunner().invoke(main, args, input=given, catch_exceptions=False)
        assert 0 == result.exit_code, result.stderr
        return result.stdout

    return await asyncio.to_thread(run)


async def notes(live: Live, name: str) -> dict[str, str]:
    found: dict[str, str] = (await live.get(JOBS.path(NAMESPACE, name)))["metadata"]["annotations"]
    return found


async def events(live: Live, name: str) -> list[tuple[str, str]]:
    listed = msgspec.json.decode(await live.api.get(EVENTS.path(NAMESPACE)))["items"]
    mine = [e for e in listed if (e["involvedObject"]["kind"], e["involvedObject"]["name"]) == ("Job", name)]
    return [(event["reason"], event["message"]) for event in mine]


def test_a_gang_of_both_pools_starts_when_it_is_submitted(kubeconfig: Path) -> None:
    async def story(live: Live, _: Scheduler) -> None:
        said = await maar(kubeconfig, "submit", "-f", "-", given=msgspec.json.encode(gang("big", 10)).decode())
        assert "spec.suspend: true" in said
        seen = await live.until(lambda pods: sum(bool(pod.node) for pod in pods) == 10, "all ten pods have a node")
        assert 10 == len({pod.node for pod in seen})
        assert "Resumed" in [reason for reason, _ in await events(live, "big")]
        # It stays: no pool's algorithm decides about it.
        await live.create(JOBS.path(NAMESPACE), gang("later", 1))
        await live.until(lambda pods: sum(bool(pod.node) for pod in pods) == 11, "another one starts beside it")
        assert ["Resumed"] == [r for r, _ in await events(live, "big") if r in ("Resumed", "Suspended", "Resized")]

    tell(kubeconfig, story)


def test_a_suspended_gang_that_waits_says_the_same_as_one_that_is_not(kubeconfig: Path) -> None:
    async def story(live: Live, _: Scheduler) -> None:
        await live.create(JOBS.path(NAMESPACE), gang("first", 10))
        await live.until(lambda pods: sum(bool(pod.node) for pod in pods) == 10, "the first one runs")
        await live.create(JOBS.path(NAMESPACE), gang("bare", 4))
        await live.create(JOBS.path(NAMESPACE), gang("suspended", 4, suspend=True))

        async def both_say_why() -> bool:
            told = [[reason for reason, _ in await events(live, name)] for name in ("bare", "suspended")]
            return told == [["FailedScheduling"]] * 2

        await live.eventually(both_say_why, "both have the event")
        (bare,), (suspended,) = await events(live, "bare"), await events(live, "suspended")
        assert bare == suspended
        assert "asks for 4 pods with 8 nvidia.com/gpu each" in bare[1]

        async def noted() -> bool:
            said = [(await notes(live, name)).get("maar.dev/why") for name in ("bare", "suspended")]
            return said == [bare[1]] * 2

        await live.eventually(noted, "both have the note")
        found = await notes(live, "suspended")
        assert ("0", "0") == (found["maar.dev/workers"], found["maar.dev/planned-workers"])
        # Command and API.
        listed = msgspec.json.decode(await maar(kubeconfig, "jobs", "-n", NAMESPACE, "-s", "waiting", "-o", "json"))
        views = {view["name"]: view for view in listed["items"]}
        for field in ("state", "condition", "why", "minimum", "pods", "requests", "allocated"):
            assert views["bare"][field] == views["suspended"][field], field
        assert {GPU: 32} == {name: n for name, n in views["suspended"]["requests"].items() if name == GPU}
        assert views["suspended"].get("elastic") is None
        (queue,) = (
            q
            for q in msgspec.json.decode(await maar(kubeconfig, "queues", "-o", "json"))["items"]
            if q["name"] == "default"
        )
        assert (2, 64) == (queue["jobs"]["waiting"], queue["waiting"][GPU])
        told = [
            await maar(kubeconfig, "why", f"{NAMESPACE}/{name}", "--seconds", "0") for name in ("bare", "suspended")
        ]
        reasons = [[line for line in text.splitlines() if "nodes fit" in line] for text in told]
        assert reasons[0] == reasons[1] != []

    tell(kubeconfig, story)


def test_a_suspended_gang_starts_where_others_were_evicted_for_it(kubeconfig: Path) -> None:
    async def story(live: Live, _: Scheduler) -> None:
        await live.priority("high", 10)
        await live.create(JOBS.path(NAMESPACE), gang("low", 10))
        await live.until(lambda pods: sum(bool(pod.node) for pod in pods) == 10, "the first one runs")
        urgent = gang("urgent", 9, suspend=True)
        urgent["spec"]["template"]["spec"]["priorityClassName"] = "high"
        await live.create(JOBS.path(NAMESPACE), urgent)
        await live.until(
            lambda pods: sum(pod.name.startswith("urgent") and bool(pod.node) for pod in pods) == 9,
            "it took their room",
        )

        async def told() -> bool:
            return "Resumed" in [reason for reason, _ in await events(live, "urgent")]

        await live.eventually(told, "an event says that it was resumed")

    tell(kubeconfig, story)
