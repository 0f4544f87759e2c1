"""What Maar remembers on a server: the ConfigMap `maar-state`, and the locks on nodes."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.support.live import Live

from maar.kube.client.errors import NotFound
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import CONFIG_MAPS, NODES

HOME = "kube-system"
STATE = CONFIG_MAPS.path(HOME, "maar-state")


async def state(cluster: Live) -> dict[str, Any]:
    """What the ConfigMap says; empty if it does not exist."""
    try:
        found = await cluster.get(STATE)
    except NotFound:
        return {}
    said: dict[str, Any] = msgspec.json.decode(found["data"]["maar"])
    return said


async def elected(cluster: Live) -> str:
    """The elected job; empty if there is none."""
    elect = (await state(cluster)).get("elect") or {}
    return str(elect.get("job", ""))


async def locks(cluster: Live) -> dict[str, str]:
    """The locked nodes, each with its job."""
    nodes = (await cluster.get(NODES.path()))["items"]
    annotations = {n["metadata"]["name"]: n["metadata"].get("annotations", {}) for n in nodes}
    return {name: a[known.LOCKED_FOR] for name, a in annotations.items() if known.LOCKED_FOR in a}
