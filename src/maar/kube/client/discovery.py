"""Which of the kinds in `maar.kube.wire.resources` a server serves.

Asked at the start and again from time to time, since CRDs come and go while Maar runs: one small request for each API
group, all at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from maar.kube.client.api import Api
from maar.kube.client.errors import NotFound, ServerFault
from maar.kube.wire.base import Object
from maar.kube.wire.resources import RESOURCES, Resource


class _Served(msgspec.Struct):
    name: str


class _ResourceList(msgspec.Struct):
    resources: list[_Served] | None = None


async def served(api: Api, wanted: Iterable[Resource[Object]] = RESOURCES) -> set[Resource[Object]]:
    """Those of `wanted` that are there; of a kind that is served in several versions the one that comes first."""
    wanted = list(wanted)
    roots = sorted({resource.root for resource in wanted})
    answers = await asyncio.gather(*(_plurals(api, root) for root in roots))
    plurals = dict(zip(roots, answers, strict=True))
    found: dict[tuple[str, str], Resource[Object]] = {}
    for resource in wanted:
        if resource.plural in plurals[resource.root]:
            found.setdefault((resource.group, resource.plural), resource)
    return set(found.values())


async def _plurals(api: Api, root: str) -> set[str]:
    """What one version of a group has; nothing where the server does not know it."""
    try:
        body = await api.get(root)
        return {item.name for item in msgspec.json.decode(body, type=_ResourceList).resources or ()}
    except NotFound:
        return set()
    except msgspec.DecodeError as error:
        raise ServerFault(f"not a list of resources: {error}", verb="GET", path=root) from error
