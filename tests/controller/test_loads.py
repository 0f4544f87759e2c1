"""The real load of nodes while Maar runs: from each source, with everything that a source can do wrong."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.support.live import Live, connected, scheduling, where
from tests.support.objects import Json, decoded
from tests.support.patience import until
from tests.support.sockets import Handler, answer, refusal, serving

from maar.config.config import LoadOrigin, Metrics
from maar.controller.loads.gatherer import Gatherer
from maar.controller.loads.sources import LARGEST
from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.picture.picture import Picture
from maar.model.loads import Load
from maar.web.actor_metrics import metrics_of as all_metrics

NOW = 1_000_000.0
HAS = {"cpu": "4", "memory": "8Gi"}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "nodes.metrics.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, stands in for metrics-server"},
    },
    "spec": {
        "group": "metrics.k8s.io",
        "names": {"plural": "nodes", "kind": "NodeMetrics", "singular": "nodemetrics", "listKind": "NodeMetricsList"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "timestamp": {"type": "string", "format": "date-time"},
                            "window": {"type": "string"},
                            "usage": {"type": "object", "additionalProperties": {"type": "string"}},
                        },
                    }
                },
            }
        ],
    },
}


def usage(interval: str = "1s", metrics: str = "type: metrics_server", threshold: int = 80) -> str:
    return f"""
actions: "allocate"
tiers:
- plugins: [{{name: gang}}, {{name: predicates}}, {{name: usage, arguments: {{thresholds: {{cpu: {threshold}}}}}}}]
metrics: {{{metrics}, interval: {interval}}}
"""


def metrics_of(name: str, cpu: str, memory: str = "1Gi") -> Json:
    head = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": {"name": name}}
    usage = {"cpu": cpu, "memory": memory}
    return {**head, "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "window": "20s", "usage": usage}


def test_pods_wait_while_all_nodes_are_busy_and_start_when_one_is_not(kubeconfig: Path, tmp_path: Path) -> None:
    """A CRD stands in for the aggregated API: the same paths and fields."""
    file = tmp_path / "maar.yaml"
    file.write_text(usage())
    path = "/apis/metrics.k8s.io/v1beta1/nodes"

    async def story() -> None:
        async with connected(kubeconfig) as cluster:
            await cluster.crds(Path(__file__).parents[2] / "deploy" / "crds")
            await cluster.nodes(2, cpu=32)
            await cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
            await cluster.eventually(lambda: serves(cluster, path), "the CRD is served")
            for name in ("n0", "n1"):
                await cluster.create(path, metrics_of(name, "31500000000n"))
            async with scheduling(cluster, config=file) as scheduler:
                await cluster.eventually(lambda: scheduler.loads.known() == 2, "figures")
                assert b"maar_measured_nodes 2.0" in all_metrics(scheduler).text()
                await cluster.pod("one")
                (pod,) = await cluster.until(lambda pods: bool(pods) and bool(pods[0].message))
                assert ("", True) == (pod.node, pod.message.startswith("no node fits: above 80 % CPU use"))
                await cluster.api.patch(
                    f"{path}/n1", {"usage": {"cpu": "2"}, "timestamp": metrics_of("", "")["timestamp"]}
                )
                await cluster.until(lambda pods: where(pods) == {"one": "n1"}, "it starts on the idle node")
                # Without the section, pods start anywhere.
                await cluster.api.patch(f"{path}/n1", {"usage": {"cpu": "31"}})
                await cluster.eventually(lambda: (scheduler.loads.loads[1].cpu or 0) > 0.9, "busy again")
                await cluster.pod("two")
                await cluster.until(lambda pods: any(p.name == "two" and p.message for p in pods), "it waits")
                file.write_text(usage().replace("type: metrics_server", "type: elasticsearch"))
                await cluster.until(lambda pods: all(p.node for p in pods), "no figures, no filter")
                assert (0, "") == (scheduler.loads.known(), scheduler.loads.problem)

    asyncio.run(story())


async def serves(cluster: Live, path: str) -> bool:
    try:
        await cluster.api.get(path)
    except Exception:  # noqa: BLE001 not served yet
        return False
    return True


# -- one source, on a socket


def node(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": HAS}}


def picture_of(*names: str) -> Picture:
    picture = Picture()
    for name in names:
        picture.put(*decoded(node(name)))
    return picture


class Scene:
    """A gatherer that reads from a server, and what reaches the picture."""

    def __init__(self, api: Api, metrics: Metrics) -> None:
        self.picture = picture_of("n1", "n2")
        self.metrics = metrics
        self.changes = 0
        self.broken = False
        self.gatherer = Gatherer(api, self.picture, self._configured, self._changed, lambda: NOW, pause=0.01)

    def _configured(self) -> Metrics:
        if self.broken:
            raise ZeroDivisionError("a bug")
        return self.metrics

    def _changed(self) -> None:
        self.changes += 1

    @property
    def loads(self) -> dict[str, Load]:
        return {load.node: load for load in self.picture.take(NOW).around.loads}

    @property
    def fractions(self) -> dict[str, tuple[float | None, float | None]]:
        return {name: (load.cpu, load.memory) for name, load in self.loads.items()}


def tell(
    handler: Handler,
    story: Callable[[Scene], Awaitable[None]],
    source: LoadOrigin = LoadOrigin.PROMETHEUS,
    interval: float = 0.01,
    base: str = "",
) -> None:
    async def run() -> None:
        async with serving(handler) as address:
            api = await Api.open(Access(address))
            scene = Scene(api, Metrics(source, address + base, interval))
            running = asyncio.create_task(scene.gatherer.run())
            try:
                await story(scene)
                assert not running.done()
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await api.close()

    asyncio.run(run())


def sample(instance: str, value: Any) -> Json:
    return {"metric": {"instance": instance}, "value": [NOW, value]}


def vector(*samples: Any) -> Json:
    return {"status": "success", "data": {"resultType": "vector", "result": list(samples)}}


def prometheus(cpu: Any, memory: Any) -> Handler:
    """A Prometheus that answers both queries."""

    async def handler(request: web.Request) -> web.StreamResponse:
        assert "/api/v1/query" == request.path[-len("/api/v1/query") :]
        given = cpu if "node_cpu_seconds_total" in request.query["query"] else memory
        return web.Response(body=given) if isinstance(given, bytes) else answer(given)

    return handler


def test_prometheus() -> None:
    cpu = vector(sample("n1", "0.25"), sample("n2:9100", "0.5"), sample("elsewhere", "0.1"))
    memory = vector(sample("n1", "0.75"), sample("n1", "0.5"))

    async def story(scene: Scene) -> None:
        await until(lambda: scene.changes > 0)
        assert Load("n1", 0.25, 0.75, NOW, 4000, 8 * 2**30) == scene.loads["n1"]
        assert {"n1": (0.25, 0.75), "n2": (0.5, None)} == scene.fractions
        assert 2 == scene.gatherer.known()

    tell(prometheus(cpu, memory), story, base="/base")


def test_real_answers_of_prometheus() -> None:
    """Recorded from Prometheus 2.42 with a node exporter."""
    folder = Path(__file__).parents[1] / "data" / "prometheus"
    cpu, memory = ((folder / f"{name}.json").read_bytes() for name in ("cpu", "memory"))

    async def story(scene: Scene) -> None:
        await until(lambda: scene.changes > 0)
        ((name, (used, taken)),) = scene.fractions.items()
        assert "n1" == name
        assert 0 < (used or 0) < 1
        assert 0 < (taken or 0) < 1

    tell(prometheus(cpu, memory), story)


def test_the_metrics_api() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert "/apis/metrics.k8s.io/v1beta1/nodes" == request.path
        when = "1970-01-12T13:46:30Z"
        return answer({"kind": "NodeMetricsList", "items": [
            {"metadata": {"name": "n1"}, "timestamp": when, "window": "20s", "usage": {"cpu": "1", "memory": "2Gi"}},
            {"metadata": {"name": "n2"}, "timestamp": when, "usage": {"cpu": "-1"}},
            {"metadata": {"name": "n3"}, "timestamp": when, "usage": {"cpu": "1"}},
            {"metadata": {"name": 5}},
        ]})  # fmt: skip

    async def story(scene: Scene) -> None:
        await until(lambda: scene.changes > 0)
        assert {"n1": Load("n1", 0.25, 0.25, NOW - 10, 4000, 8 * 2**30)} == scene.loads

    tell(handler, story, LoadOrigin.METRICS_SERVER)


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_custom_metrics(version: str) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        stem = f"/apis/custom.metrics.k8s.io/{version}/nodes/*/"
        if not request.path.startswith(stem):
            return refusal(404, "NotFound")
        value = {"node_cpu_usage_avg": "250m", "node_memory_usage_avg": "0.5"}[request.path.removeprefix(stem)]
        about = {"describedObject": {"kind": "Node", "name": "n1"}, "timestamp": "1970-01-12T13:46:30Z"}
        broken = {"describedObject": {"kind": "Node", "name": "n2"}, "value": "lots"}
        return answer({"items": [{**about, "value": value}, broken, 5]})

    async def story(scene: Scene) -> None:
        await until(lambda: scene.changes > 0)
        assert {"n1": Load("n1", 0.25, 0.5, NOW - 10, 4000, 8 * 2**30)} == scene.loads

    tell(handler, story, LoadOrigin.ADAPTOR)


# -- what a source can do wrong

GOOD = vector(sample("n1", "0.5"))
BAD = [
    (vector(sample("n1", "NaN"), sample("n2", "0.5")), "1 that cannot be true (n1: load: expected fractions, got nan"),
    (vector(sample("n1", "-0.5"), sample("n2", "0.5")), "1 that cannot be true (n1"),
    (vector(sample("n1", "+Inf"), sample("n2", "0.5")), "1 that cannot be true (n1"),
    (vector(sample("n1", "1e9"), sample("n2", "0.5")), "1 that cannot be true (n1"),
    (vector(sample("n1", "much"), sample("n2", "0.5")), "1 malformed"),
    (vector({"metric": {"instance": 5}, "value": [NOW, "1"]}, sample("n2", "0.5")), "1 malformed"),
    (vector({"metric": {}, "value": [NOW, "1"]}, sample("n2", "0.5")), "1 of unknown nodes"),
    (vector(sample("n9", "0.5"), sample("n2", "0.5")), "1 of unknown nodes"),
]


@pytest.mark.parametrize(("given", "left_out"), BAD)
def test_safety_a_bad_figure_is_left_out_with_one_line(
    given: Json, left_out: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(scene: Scene) -> None:
        await until(lambda: scene.changes > 2)
        assert {"n2": (0.5, None)} == scene.fractions

    tell(prometheus(given, vector()), story)
    (line,) = [r.getMessage() for r in caplog.records if r.name == "maar.load"]
    assert line.startswith("figures of the load of nodes are left out: ")
    assert left_out in line


async def hangs(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(LARGEST // 2**20 + 8):
        await response.write(b" " * 2**20)
    return response


async def endless_refusal(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(status=500)
    await response.prepare(request)
    for _ in range(64):
        await response.write(b"x" * 2**20)
    return response


async def drops(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    raise ConnectionError


def says(body: Any, status: int = 200) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body if isinstance(body, bytes) else json.dumps(body).encode(), status=status)

    return handler


FAILURES = [
    (says(b"<html>"), "malformed"),
    (says(b"\xff\xfe"), ""),
    (says(b"[" * 100_000), ""),
    (says({"status": "error", "errorType": "bad_data", "error": "unknown function"}), "Prometheus: unknown function"),
    (says({"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}), "not a vector"),
    (says({"status": "success", "data": {"resultType": "vector", "result": "none"}}), "Expected `array`"),
    (says({"error": "too many queries"}, 503), "GET /api/v1/query: too many queries"),
    (says(b"no", 401), "no"),
    (endless, "the response exceeds 33554432 bytes"),
    (endless_refusal, "xxx"),
    (drops, ""),
]


@pytest.mark.parametrize(("handler", "problem"), FAILURES)
def test_safety_a_source_that_fails_is_asked_again_and_counted(
    handler: Handler, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "maar.load")
    asked = 0

    async def first_bad(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return await (handler if asked <= 2 else prometheus(GOOD, GOOD))(request)

    async def story(scene: Scene) -> None:
        await until(lambda: bool(scene.gatherer.problem))
        assert problem in scene.gatherer.problem
        assert {} == scene.loads
        await until(lambda: scene.changes > 0)
        assert {"n1": (0.5, 0.5)} == scene.fractions
        assert (1, "") == (scene.gatherer.restarts, scene.gatherer.problem)

    tell(first_bad, story)
    said = [r.getMessage() for r in caplog.records if r.name == "maar.load"]
    assert 2 == len(said), "one line when it fails, one when it works again"
    assert said[0].startswith("the load of nodes cannot be read, decisions continue without it: ")


def test_safety_figures_stay_while_the_source_fails() -> None:
    """They carry their time: decisions do not use them when they are too old."""
    good = True

    async def handler(request: web.Request) -> web.StreamResponse:
        return await (prometheus(GOOD, GOOD) if good else says(b"no", 503))(request)

    async def story(scene: Scene) -> None:
        nonlocal good
        await until(lambda: scene.changes > 0)
        good = False
        await until(lambda: bool(scene.gatherer.problem))
        assert {"n1": (0.5, 0.5)} == scene.fractions

    tell(handler, story)


def test_a_new_configuration_changes_the_source_at_once() -> None:
    """Not after the interval of the old one."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/other"):
            return await prometheus(GOOD, vector())(request)
        return await prometheus(vector(sample("n2", "0.1")), vector())(request)

    async def story(scene: Scene) -> None:
        await until(lambda: scene.changes == 1)
        assert {"n2": (0.1, None)} == scene.fractions
        before = scene.metrics
        scene.metrics = Metrics(LoadOrigin.PROMETHEUS, before.address + "/other", 3600.0)
        scene.gatherer.look()
        await until(lambda: scene.fractions == {"n1": (0.5, None)})
        scene.metrics = Metrics()
        scene.gatherer.look()
        await until(lambda: scene.fractions == {})
        scene.metrics = before
        scene.gatherer.look()
        await until(lambda: scene.fractions == {"n2": (0.1, None)})

    tell(handler, story, interval=3600.0)


def test_safety_a_bug_restarts_the_gathering(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        await until(lambda: scene.changes > 0)
        scene.broken = True
        await until(lambda: "because of a bug: ZeroDivisionError" in scene.gatherer.problem)
        scene.broken = False
        await until(lambda: scene.gatherer.restarts == 1)

    tell(prometheus(GOOD, GOOD), story)
    assert 1 == sum("because of a bug" in r.getMessage() for r in caplog.records)


def test_safety_a_source_that_hangs_stops_nothing(kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "maar.yaml"

    async def story() -> None:
        async with serving(hangs) as address, connected(kubeconfig) as cluster:
            await cluster.crds(Path(__file__).parents[2] / "deploy" / "crds")
            await cluster.nodes(1)
            file.write_text(usage(metrics=f"type: prometheus, address: '{address}'"))
            async with scheduling(cluster, config=file):
                await cluster.pod("one")
                await cluster.until(lambda pods: where(pods) == {"one": "n0"})

    asyncio.run(story())
