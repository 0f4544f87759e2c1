"""A listener of the observer: one file, and one line where it is added. This one stands outside of `src`."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from tests.support.live import NAMESPACE, Live, connected, observing
from tests.support.patience import until

from maar.controller.snapshots.cycle import Cycle
from maar.embedded.server import EmbeddedServer


class Rates:
    """Counts, for each job, the cycles in which it waits, and the binds."""

    def __init__(self) -> None:
        self.waits: Counter[str] = Counter()
        self.binds: set[str] = set()

    def on_cycle(self, cycle: Cycle) -> None:
        self.waits.update(cycle.waits)
        self.binds |= {bind.task for bind in cycle.plan.bind}


async def _listens(folder: Path) -> None:
    async with EmbeddedServer() as server, connected(server.kubeconfig(folder / "kubeconfig")) as cluster:
        rates = Rates()
        async with observing(cluster) as observer:
            observer.loop.on_cycle.append(rates.on_cycle)
            await _fill(cluster)
            await until(lambda: rates.binds and rates.waits, "the listener has heard of both")
    assert {f"{NAMESPACE}/small"} == rates.binds
    assert {f"{NAMESPACE}/large"} == rates.waits.keys()


async def _fill(cluster: Live) -> None:
    await cluster.nodes(1, gpu=8)
    await cluster.pod("small", gpu=1)
    await cluster.pod("large", gpu=9)


def test_a_listener_hears_every_cycle(tmp_path: Path) -> None:
    asyncio.run(_listens(tmp_path))
