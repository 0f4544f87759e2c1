"""In one cycle binds are sent first; what people read is made after that."""

from __future__ import annotations

import asyncio

from tests.kube.picture.test_one_reader import pod, thing
from tests.support.objects import decoded
from tests.support.sockets import until

from maar.config.file import default_config
from maar.controller.loop import Loop
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.settings import Settings
from maar.controller.snapshots.cache import Cache
from maar.controller.snapshots.cycle import Cycle
from maar.kube.picture.picture import Picture
from maar.registry import catalog


class Sent:
    """An outbox whose writes leave when told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.left = asyncio.Event()

    def send(self, cycle: Cycle, decided: float | None = None) -> None:
        self.calls.append(f"send {len(cycle.plan.bind)}")

    async def all_answered(self, patience: float) -> None: ...

    async def has_room(self, patience: float) -> None: ...

    async def all_sent(self, patience: float) -> None:
        self.calls.append("wait")
        await self.left.wait()

    def report(self, cycle: Cycle) -> None:
        self.calls.append("report")

    def due(self, now: float) -> float | None:
        return None


def test_reports_come_after_the_binds_have_left() -> None:
    async def story() -> None:
        picture, outbox = Picture(frozenset({"maar"})), Sent()
        for item in (
            thing("v1", "Node", "n1", status={"allocatable": {"cpu": "8", "nvidia.com/gpu": "8", "pods": "110"}}),
            pod("train"),
        ):
            picture.put(*decoded(item))
        config = default_config(catalog())
        loop = Loop(Cache(picture), lambda: (config, None), Settings(), Brakes())
        cycles: list[Cycle] = []
        loop.on_cycle.append(cycles.append)
        cycle = asyncio.create_task(loop.once(outbox))
        await until(lambda: "wait" in outbox.calls)
        assert (["send 1", "wait"], 1) == (outbox.calls, len(cycles))
        outbox.left.set()
        await cycle
        assert (["send 1", "wait", "report"], 1) == (outbox.calls, len(cycles))

    asyncio.run(story())
