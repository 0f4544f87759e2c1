"""Reads and writes ShardMap and Shards. Every write replaces one version, and fails if there is a newer one.

`Conflict` goes to the caller, which reads again and decides again: an entry may have another owner now, and the epoch
may not be its own any more (rule 4 of docs/shards-proof.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from maar.kube.client.api import Api
from maar.kube.client.errors import NotFound, ServerFault
from maar.kube.client.streams import Broken
from maar.kube.read.shards import MAP_NAME, BrokenMap, shard_map, shard_name, shard_number, spec_of
from maar.kube.wire.api_resources import SHARD_MAPS, SHARDS
from maar.kube.wire.decoding import decode
from maar.kube.wire.errors import FieldError
from maar.kube.wire.shards import ShardMap as WireMap
from maar.kube.wire.shards import ShardSpec, ShardStatus
from maar.shards.map import ShardMap

Document = dict[str, Any]


class StoredMap(NamedTuple):
    """A map, and the version of its object that a write replaces."""

    map: ShardMap
    document: Document

    @property
    def version(self) -> str:
        return str(self.document["metadata"]["resourceVersion"])


class ShardFigures(NamedTuple):
    """The figures of shards, and what is wrong with objects that cannot be read."""

    statuses: dict[int, ShardStatus]
    problems: list[str]


def stored_of(item: WireMap) -> StoredMap:
    """A map that a watch has shown; `BrokenMap` if it cannot be used."""
    known = item.metadata
    metadata: Document = {"name": item.name, "uid": known.uid, "resourceVersion": known.resource_version}
    metadata |= {"labels": known.labels, "annotations": known.annotations}
    return StoredMap(shard_map(item), SHARD_MAPS.document(metadata))


async def read_map(api: Api) -> StoredMap | None:
    """The map as it is now; `None` if the cluster has none; `BrokenMap` if it cannot be used."""
    try:
        return _stored(await api.get(SHARD_MAPS.path(name=MAP_NAME)))
    except NotFound:
        return None


async def create_map(api: Api, made: ShardMap) -> StoredMap:
    """Write the first map of a cluster; `AlreadyExists` if another process was faster."""
    document = SHARD_MAPS.document({"name": MAP_NAME}, spec=msgspec.to_builtins(spec_of(made)))
    return _stored(await api.create(SHARD_MAPS.path(), document))


async def write_map(api: Api, before: StoredMap, made: ShardMap) -> StoredMap:
    """Replace a version of the map; `Conflict` if it is not the newest one."""
    document = before.document | {"spec": msgspec.to_builtins(spec_of(made))}
    return _stored(await api.replace(SHARD_MAPS.path(name=MAP_NAME), document))


async def read_shards(api: Api) -> ShardFigures:
    """The figures of all shards. An object that cannot be read is named, and the others are read."""
    found = ShardFigures({}, [])
    for item in (await api.list(SHARDS)).items:
        name = item.name
        number = shard_number(name)
        if isinstance(item, Broken):
            found.problems.append(f"Shard `{name}`: {item.error}")
        elif number is None:
            found.problems.append(f"Shard `{name}`: expected a name such as `{shard_name(0)}`")
        else:
            found.statuses[number] = item.status
    return found


async def read_shard(api: Api, shard: int) -> Document | None:
    """The object of one shard; `None` if it has none."""
    try:
        return _document(await api.get(SHARDS.path(name=shard_name(shard))))
    except NotFound:
        return None


async def write_shard(
    api: Api, shard: int, spec: ShardSpec, status: ShardStatus, before: Document | None = None
) -> Document:
    """Write wants and figures of a shard in place of a version, or create it; `Conflict` if that is not the newest."""
    name = shard_name(shard)
    document = (before or SHARDS.document({"name": name})) | {
        "spec": msgspec.to_builtins(spec),
        "status": msgspec.to_builtins(status),
    }
    if before is None:
        body = await api.create(SHARDS.path(), document)
    else:
        body = await api.replace(SHARDS.path(name=name), document)
    return _document(body)


def _stored(body: bytes) -> StoredMap:
    document = _document(body)
    try:
        wire = decode(document, WireMap)
    except FieldError as error:
        raise BrokenMap(str(error)) from None
    return StoredMap(shard_map(wire), document)


def _document(body: bytes) -> Document:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ServerFault(f"not an object: {error}") from error
