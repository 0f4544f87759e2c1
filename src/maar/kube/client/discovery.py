"""Finds which kinds of `maar.kube.kinds` a server serves.

The controller asks at the start and again periodically, since CRDs come and go. It is one small request for each API
version, all sent at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from maar.kube.client.errors import NotFound, ServerFault
from maar.kube.client.reader import Reader
from maar.kube.kinds import WATCHED, AnyKind
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Object


class _Served(msgspec.Struct):
    name: str


class _ResourceList(msgspec.Struct):
    resources: list[_Served] | None = None


async def served(api: Reader, kinds: Iterable[AnyKind] = WATCHED) -> dict[AnyKind, Resource[Object]]:
    """The served kinds, each in its newest served version; of two kinds with the same name, the first in the table."""
    wanted = [(kind, resource) for kind in kinds for resource in (kind.resource, *kind.older)]
    roots = sorted({resource.root for _, resource in wanted})
    answers = await asyncio.gather(*(_plurals(api, root) for root in roots))
    plurals = dict(zip(roots, answers, strict=True))
    names: set[tuple[str, str]] = set()
    found: dict[AnyKind, Resource[Object]] = {}
    for kind, resource in wanted:
        name = (resource.group, resource.plural)
        if resource.plural in plurals[resource.root] and name not in names:
            names.add(name)
            found[kind] = resource
    return found


async def _plurals(api: Reader, root: str) -> set[str]:
    """The plural names in one version of an API group; empty if the server does not serve it."""
    try:
        body = await api.get(root)
        return {item.name for item in msgspec.json.decode(body, type=_ResourceList).resources or ()}
    except NotFound:
        return set()
    except msgspec.DecodeError as error:
        raise ServerFault(f"malformed resource list: {error}", verb="GET", path=root) from error
