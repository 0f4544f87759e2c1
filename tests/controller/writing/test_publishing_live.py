"""The configuration in use, as a ConfigMap that commands read: when it is written, by whom, and what is in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from tests.support.live import OUR_CRDS, Live, connected, observing, scheduling

from maar.config.file import default_text
from maar.controller.observer import Observer
from maar.controller.settings.brakes import Brakes, BrakeSettings
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.settings import Settings
from maar.controller.writing.publishing import Publisher
from maar.embedded.server import EmbeddedServer
from maar.kube.client.errors import NotFound
from maar.kube.wire.api_resources import CONFIG_MAPS
from maar.model.selectors import Requirement, Selector

PATH = CONFIG_MAPS.path("kube-system", "maar-configuration")
PROMETHEUS = 'metrics: {type: prometheus, address: "http://prometheus.secret:9090"}\n'


@asynccontextmanager
async def cluster_of(tmp_path: Path) -> AsyncIterator[tuple[EmbeddedServer, Live]]:
    server = EmbeddedServer()
    server.start()
    try:
        async with connected(server.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            await cluster.crds(OUR_CRDS)
            await cluster.nodes(1)
            yield server, cluster
    finally:
        server.stop()


def _look(looks: list[float]) -> float:
    """A clock that is counted."""
    looks.append(1.0)
    return 1.0


async def found(cluster: Live) -> dict[str, Any]:
    try:
        return {key: yaml.safe_load(text) for key, text in (await cluster.get(PATH))["data"].items()}
    except NotFound:
        return {}


def test_the_leader_publishes_its_configuration_and_what_changes_in_it(tmp_path: Path) -> None:
    async def story() -> None:
        file = tmp_path / "maar.yaml"
        file.write_text(default_text() + PROMETHEUS)
        node = Selector((Requirement("pool", "In", ("gpu",)),))
        settings = Settings(scheduler_names=frozenset({"maar", "volcano"}), node_selector=node)
        async with cluster_of(tmp_path) as (_, cluster):
            async with scheduling(cluster, settings, file):

                async def is_published() -> bool:
                    return bool(await found(cluster))

                await cluster.eventually(is_published, "it is published")
                (entry,) = (await found(cluster)).values()
                assert (["maar", "volcano"], {"pool": "gpu"}) == (entry["scheduler-names"], entry["nodes"])
                assert ["metrics"] == entry["configuration"]["left-out"]
                assert "prometheus.secret" not in str(await cluster.get(PATH))
                text = file.read_text()
                file.write_text(text.replace("reclaim, backfill", "backfill"))

                async def is_changed() -> bool:
                    (new,) = (await found(cluster)).values()
                    return "reclaim" not in [one["name"] for one in new["configuration"]["actions"]]

                await cluster.eventually(is_changed, "the new configuration is published")
            looks: list[float] = []
            before = (await cluster.get(PATH))["metadata"]["resourceVersion"]
            following = Publisher(cluster.api, ConfigFile(file), settings, clock=partial(_look, looks), again=0.01)
            async with running(following):
                await cluster.eventually(lambda: len(looks) > 3, "the next leader has looked")
            assert before == (await cluster.get(PATH))["metadata"]["resourceVersion"], "nothing new, nothing written"

    asyncio.run(story())


def test_brakes_are_published_when_they_change(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster_of(tmp_path) as (_, cluster):
            brakes = Brakes()
            publisher = Publisher(cluster.api, ConfigFile(None), Settings(), brakes=brakes)

            async def has(queues: list[str]) -> bool:
                return [queues] == [entry["brakes"]["queuesOff"] for entry in (await found(cluster)).values()]

            async with running(publisher):
                await cluster.eventually(lambda: has([]), "without brakes")
                brakes.settings = BrakeSettings(queues_off=("production",))
                publisher.look()
                await cluster.eventually(lambda: has(["production"]), "with brakes")

    asyncio.run(story())


@asynccontextmanager
async def running(*publishers: Publisher) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(publisher.run()) for publisher in publishers]
    try:
        yield
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_a_shadow_and_a_process_without_the_first_shard_publish_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster_of(tmp_path) as (_, cluster):
            async with observing(cluster) as shadow:
                await cluster.eventually(lambda: _decided(shadow), "it has decided")
            asked: list[float] = []
            other = Publisher(cluster.api, ConfigFile(None), Settings(), is_first=lambda: _look(asked) < 0, again=0.01)
            async with running(other):
                await cluster.eventually(lambda: len(asked) > 3, "it has looked whether it is the first")
            assert {} == await found(cluster)

    asyncio.run(story())


async def _decided(observer: Observer) -> bool:
    return observer.loop.cycles > 0


def test_several_maars_keep_their_entries_and_conflicts_are_tried_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster_of(tmp_path) as (server, cluster):
            server.faults.fail_codes, server.faults.fail_share = (409, 500), 0.5
            names = [frozenset({name}) for name in ("maar", "volcano", "other")]
            makers = [Publisher(cluster.api, ConfigFile(None), Settings(scheduler_names=n), again=0.01) for n in names]
            async with running(*makers):
                await cluster.eventually(lambda: _has(cluster, "maar", "volcano", "other"), "each has its entry")

    asyncio.run(story())


async def _has(cluster: Live, *names: str) -> bool:
    entries = await found(cluster)
    return all("configuration" in (entries.get(name) or {}) for name in names)


def test_a_configmap_that_was_deleted_or_spoilt_comes_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            cluster_of(tmp_path) as (_, cluster),
            running(Publisher(cluster.api, ConfigFile(None), Settings(), again=0.01)),
        ):
            await cluster.eventually(lambda: _has(cluster, "maar"), "it is published")
            await cluster.api.delete(PATH)
            await cluster.eventually(lambda: _has(cluster, "maar"), "it comes back")
            await cluster.api.patch(PATH, {"data": {"maar": "nonsense: 1"}})
            await cluster.eventually(lambda: _has(cluster, "maar"), "it is corrected")

    asyncio.run(story())


def test_without_the_right_it_is_a_warning_and_decisions_go_on(tmp_path: Path, caplog: Any) -> None:
    async def story() -> None:
        async with cluster_of(tmp_path) as (server, cluster):
            server.faults.fail_codes, server.faults.fail_share = (403,), 1.0
            looks: list[float] = []
            refused = Publisher(cluster.api, ConfigFile(None), Settings(), clock=partial(_look, looks), again=0.01)
            async with running(refused):
                await cluster.eventually(lambda: len(looks) > 3, "it goes on trying")
            assert 1 == caplog.text.count("cannot be published")

    asyncio.run(story())
