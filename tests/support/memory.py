"""What Maar remembers on a server: the ConfigMap `maar-state`, and the locks on nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from tests.support.live import Live

from maar.config.file import default_text
from maar.kube.client.errors import NotFound
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import CONFIG_MAPS, NODES

HOME = "kube-system"
STATE = CONFIG_MAPS.path(HOME, "maar-state")


async def state(cluster: Live) -> dict[str, Any]:
    """What the ConfigMap says; empty if it does not exist."""
    said: dict[str, Any] = msgspec.json.decode((await _data(cluster)).get("maar", "{}"))
    return said


async def facts(cluster: Live) -> list[dict[str, Any]]:
    """The facts about the cluster and about jobs."""
    said: list[dict[str, Any]] = msgspec.json.decode((await _data(cluster)).get("maar..facts", "[]"))
    return said


async def _data(cluster: Live) -> dict[str, str]:
    try:
        found: dict[str, str] = (await cluster.get(STATE))["data"]
    except NotFound:
        return {}
    return found


async def elected(cluster: Live) -> str:
    """The elected job; empty if there is none."""
    elect = (await state(cluster)).get("elect") or {}
    return str(elect.get("job", ""))


async def locks(cluster: Live) -> dict[str, str]:
    """The locked nodes, each with its job."""
    nodes = (await cluster.get(NODES.path()))["items"]
    annotations = {n["metadata"]["name"]: n["metadata"].get("annotations", {}) for n in nodes}
    return {name: a[known.LOCKED_FOR] for name, a in annotations.items() if known.LOCKED_FOR in a}


def electing(folder: Path) -> Path:
    """The default configuration, but a job is elected at once and may have all nodes."""
    place = folder / "electing.yaml"
    place.write_text(elects_at_once(default_text()))
    return place


def elects_at_once(text: str) -> str:
    """The text of the default configuration with these arguments of `reservation`."""
    for argument, value in (("after", "0s"), ("most", "1.0")):
        text, changed = re.subn(rf"(reservation\.{argument}: )\S+", rf"\g<1>{value}", text)
        assert changed == 1
    return text
