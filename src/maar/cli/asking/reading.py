"""Read a cluster once, with the rights of the caller: everything that a decision depends on, as far as she may list it.

A kind that she may not list in all namespaces is listed in hers. What is missing is named: without all nodes and all
pods there is no decision, only what the scheduler wrote on objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from maar.kube.client.api import Api
from maar.kube.client.discovery import served
from maar.kube.client.errors import Forbidden, NotFound
from maar.kube.client.streams import Broken
from maar.kube.kinds import WATCHED, AnyKind
from maar.kube.kinds.cluster import NODES, PODS, QUEUES, SHARD_MAPS, SHARDS
from maar.kube.picture.picture import Picture
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Object
from maar.kube.wire.decoding import decode_json
from maar.model.selectors import Selector

NOT_NEEDED = (SHARD_MAPS, SHARDS)
"""Kinds that no decision here depends on: they only say which shard decides."""
AT_ONCE = 8
"""Lists in flight; tuned by hand."""


class Part(NamedTuple):
    """What a caller may read of a kind."""

    kind: AnyKind
    items: Sequence[Object | Broken]
    everywhere: bool
    """False: of her namespaces only, or nothing."""


class Reading(NamedTuple):
    """A cluster as its caller may see it."""

    picture: Picture
    whole: bool
    """Whether all nodes, pods and queues are in it: only then a decision means something."""
    everywhere: bool
    """Whether she may list pods in all namespaces."""
    namespaces: tuple[str, ...]
    unseen: tuple[str, ...]
    """What she may not list, in words."""
    objects: tuple[tuple[AnyKind, Object], ...]
    hidden: frozenset[AnyKind] = frozenset()
    """Kinds of which she may not list all objects."""


async def read(
    api: Api,
    namespaces: Sequence[str],
    names: frozenset[str],
    home: str,
    nodes: Selector | None = None,
    without: frozenset[str] = frozenset(),
) -> Reading:
    """The cluster now. `namespaces` are those of the caller, `names` the scheduler names, `home` Maar's namespace.

    `nodes`: which nodes are Maar's, `without`: families of kinds that it leaves alone.
    """
    kinds = await served(api, [kind for kind in WATCHED if kind.family not in without])
    limit = asyncio.Semaphore(AT_ONCE)

    async def part(kind: AnyKind, resource: Resource[Object]) -> Part:
        async with limit:
            return await _part(api, kind, resource, namespaces, home)

    parts = await asyncio.gather(*(part(kind, resource) for kind, resource in kinds.items()))
    ours = (lambda _: True) if nodes is None else (lambda node: nodes.matches(node.metadata.labels))
    picture = Picture(names, ours, settling=None)
    picture.served.update(kinds)
    objects: list[tuple[AnyKind, Object]] = []
    for found in parts:
        for item in found.items:
            if isinstance(item, Broken):
                picture.broken(found.kind, item.namespace, item.name, item.error, item.item)
            else:
                picture.put(found.kind, item)
                objects.append((found.kind, item))
    picture.read_short()
    hidden = [p for p in parts if not p.everywhere]
    kept = {p.kind for p in hidden}
    return Reading(
        picture,
        whole=not kept & {NODES, PODS, QUEUES},
        everywhere=PODS not in kept,
        namespaces=tuple(namespaces),
        unseen=tuple(_words(p.kind, namespaces) for p in hidden if not p.kind.only and p.kind not in NOT_NEEDED),
        objects=tuple(objects),
        hidden=frozenset(kept),
    )


async def _part(api: Api, kind: AnyKind, resource: Resource[Object], namespaces: Sequence[str], home: str) -> Part:
    if kind.only:
        return await _only(api, kind, resource, home)
    try:
        return Part(kind, (await api.list(resource)).items, True)
    except Forbidden:
        pass
    except NotFound:  # the kind was removed just now
        return Part(kind, (), True)
    items: list[Any] = []
    for namespace in namespaces if resource.namespaced else ():
        try:
            items += (await api.list(resource, namespace)).items
        except (Forbidden, NotFound):
            continue
    return Part(kind, items, False)


async def _only(api: Api, kind: AnyKind, resource: Resource[Object], home: str) -> Part:
    """The one object of a kind that Maar reads, in its own namespace."""
    try:
        return Part(kind, (decode_json(await api.get(resource.path(home, kind.only)), resource.struct),), True)
    except NotFound:
        return Part(kind, (), True)
    except Forbidden:
        return Part(kind, (), False)


def _words(kind: AnyKind, namespaces: Sequence[str]) -> str:
    if not kind.resource.namespaced:
        return str(kind.resource)
    return f"{kind.resource} outside {', '.join(namespaces)}"
