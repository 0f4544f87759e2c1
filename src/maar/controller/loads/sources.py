"""Where the real load of nodes is read: the metrics API, the API for custom metrics, or Prometheus.

A source sends requests and decodes the responses; nothing that they contain is believed here. `gatherer`
decides when to read, and what of it reaches decisions.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from maar.config.config import LoadOrigin, Metrics
from maar.kube.client.access import Access
from maar.kube.client.errors import NotFound
from maar.kube.client.reader import Reader
from maar.kube.client.transport import Transport
from maar.kube.wire.api_resources import CUSTOM_METRICS, NODE_CPU_USAGE, NODE_MEMORY_USAGE, NODE_METRICS
from maar.kube.wire.base import Quantity, Time
from maar.kube.wire.cluster import NodeMetrics
from maar.model.resources import parse_quantity

SECONDS = 10.0
"""Timeout of one request; tuned by hand."""
LARGEST = 32 * 1024 * 1024
"""Bytes of one response; 5,000 nodes need about 2 MB."""
CPU_QUERY = 'avg_over_time((1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])))[10m:30s])'
MEMORY_QUERY = "avg_over_time((1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)[10m:30s])"
"""Metrics of the node exporter, and averages over ten minutes, as in Volcano, but for all nodes at once."""


class Fractions(NamedTuple):
    """The load of a node as fractions of what it has."""

    node: str
    cpu: float | None
    memory: float | None
    at: float | None
    """When it was measured; `None`: now."""


Figure = NodeMetrics | Fractions
ByNode = dict[str, tuple[float, float | None]]
"""The fraction and the time of each node."""
T = TypeVar("T")


class Unusable(Exception):
    """A response that does not contain figures."""


class Reading(NamedTuple):
    figures: list[Figure]
    malformed: int
    """Entries that could not be decoded."""


class LoadSource(Protocol):
    async def read(self) -> Reading:
        """All figures; raises `ApiError`, `Unusable` or a decoding error."""

    async def close(self) -> None: ...


def open_source(metrics: Metrics, api: Reader) -> LoadSource | None:
    match metrics.source:
        case None:
            return None
        case LoadOrigin.PROMETHEUS:
            return Prometheus(metrics.address, metrics.insecure)
        case LoadOrigin.ADAPTOR:
            return CustomMetrics(api)
        case LoadOrigin.METRICS_SERVER:
            return MetricsServer(api)


class _Items(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class MetricsServer:
    """The API `metrics.k8s.io`."""

    def __init__(self, api: Reader) -> None:
        self._api = api

    async def read(self) -> Reading:
        body = await self._api.read(NODE_METRICS.path(), timeout=SECONDS, most=LARGEST)
        items = msgspec.json.decode(body, type=_Items).items or []
        figures, malformed = _each(items, msgspec.json.Decoder(NodeMetrics).decode)
        return Reading([*figures], malformed)

    async def close(self) -> None:
        """Nothing: the connections are those of all requests."""


class _Described(msgspec.Struct):
    name: str = ""


class _MetricValue(msgspec.Struct, rename="camel"):
    described_object: _Described
    value: Quantity
    timestamp: Time | None = None


class CustomMetrics:
    """The API `custom.metrics.k8s.io`, with the metrics that Volcano's guide defines for Prometheus Adapter."""

    VERSIONS = ("v1beta1", "v1beta2")

    def __init__(self, api: Reader) -> None:
        self._api = api

    async def read(self) -> Reading:
        (cpu, bad), (memory, worse) = [await self._all(name) for name in (NODE_CPU_USAGE, NODE_MEMORY_USAGE)]
        return Reading(list(_joined(cpu, memory)), bad + worse)

    async def _all(self, name: str) -> tuple[ByNode, int]:
        items = msgspec.json.decode(await self._get(name), type=_Items).items or []
        decoder = msgspec.json.Decoder(_MetricValue)

        def read(item: msgspec.Raw) -> tuple[str, tuple[float, float | None]]:
            value = decoder.decode(item)
            at = None if value.timestamp is None else value.timestamp.timestamp()
            return value.described_object.name, (float(parse_quantity(value.value)), at)

        found, malformed = _each(items, read)
        return dict(found), malformed

    async def _get(self, name: str) -> bytes:
        first, second = (f"/apis/{CUSTOM_METRICS}/{version}/nodes/*/{name}" for version in self.VERSIONS)
        try:
            return await self._api.read(first, timeout=SECONDS, most=LARGEST)
        except NotFound:
            return await self._api.read(second, timeout=SECONDS, most=LARGEST)

    async def close(self) -> None:
        """Nothing: the connections are those of all requests."""


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: list[msgspec.Raw] = []


class _Answer(msgspec.Struct):
    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""


class _Sample(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class Prometheus:
    """Prometheus, by its HTTP API. The label `instance` is the name of a node, perhaps with a port."""

    def __init__(self, address: str, insecure: bool) -> None:
        access = Access(address)
        if insecure:
            access.ssl = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            access.ssl.check_hostname = False
            access.ssl.verify_mode = ssl.CERT_NONE
        self._transport = Transport(access, connections=1)

    async def read(self) -> Reading:
        (cpu, bad), (memory, worse) = [await self._query(query) for query in (CPU_QUERY, MEMORY_QUERY)]
        return Reading(list(_joined(cpu, memory)), bad + worse)

    async def _query(self, query: str) -> tuple[ByNode, int]:
        params = {"query": query, "timeout": f"{SECONDS:g}s"}
        body = await self._transport.read("/api/v1/query", params, SECONDS, LARGEST)
        answer = msgspec.json.decode(body, type=_Answer)
        if answer.status != "success" or answer.data.result_type != "vector":
            raise Unusable(f"Prometheus: {answer.error[:200] or 'the response is not a vector'}")
        decoder, found = msgspec.json.Decoder(_Sample), ByNode()

        def read(item: msgspec.Raw) -> tuple[str, float]:
            sample = decoder.decode(item)
            return sample.metric.get("instance", ""), float(sample.value[1])

        samples, malformed = _each(answer.data.result, read)
        for name, value in samples:
            found[name] = max(found[name][0], value) if name in found else value, None  # the larger of two series
        return found, malformed

    async def close(self) -> None:
        await self._transport.close()


def _each(items: Iterable[msgspec.Raw], read: Callable[[msgspec.Raw], T]) -> tuple[list[T], int]:
    """What can be read, and how many items cannot."""
    found, malformed = list[T](), 0
    for item in items:
        try:
            found.append(read(item))
        except (ValueError, OverflowError):  # what msgspec raises is a ValueError
            malformed += 1
    return found, malformed


def _joined(cpu: ByNode, memory: ByNode) -> Iterable[Fractions]:
    """One figure for each node; the older of two times counts."""
    for name in dict.fromkeys((*cpu, *memory)):
        (of_cpu, a), (of_memory, b) = (found.get(name, (None, None)) for found in (cpu, memory))
        yield Fractions(name, of_cpu, of_memory, min((at for at in (a, b) if at is not None), default=None))
