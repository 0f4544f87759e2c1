"""The front of the shards of a process, without an API server."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from maar.config.file import default_config
from maar.controller.loop import Loop
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.settings import Settings
from maar.controller.shards.front import Shards
from maar.registry import catalog


def test_a_cycle_ends_also_if_all_shards_of_the_process_are_being_given_back() -> None:
    """Two shards that are given back at once wait for it both, and then there is nothing to decide."""

    async def story() -> None:
        nothing = cast(Any, None)
        cycles: list[asyncio.Task[float | None]] = []
        loop = Loop(nothing, None, lambda: (default_config(catalog()), None), Settings(), Brakes())

        async def list_pods() -> None: ...

        def trigger() -> None:
            cycles.append(asyncio.create_task(loop.once()))

        loop.shards = Shards(nothing, nothing, nothing, list_pods, trigger)
        async with asyncio.timeout(5):
            await asyncio.gather(loop.shards.a_cycle(), loop.shards.a_cycle())
        assert [None] * 4 == await asyncio.gather(*cycles)

    asyncio.run(story())
