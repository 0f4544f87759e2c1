"""The front of the shards of a process, without an API server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from tests.controller.shards.test_holding import FOREIGN, MAP, NAMES, stored
from tests.support.sockets import until

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


def test_what_the_map_gives_during_a_take_over_is_listed_and_used_although_the_map_stays_as_it_is() -> None:
    async def story() -> None:
        lists: list[str] = []

        async def list_pods() -> None:
            lists.append("pods")

        objects = SimpleNamespace(of=lambda kind: {})
        cache = SimpleNamespace(wake_all=lambda: None, picture=SimpleNamespace(objects=objects))
        nothing = cast(Any, None)
        shards = Shards(nothing, cast(Any, cache), nothing, list_pods, lambda: None)
        shards.holding.see(stored(MAP.lent(FOREIGN[0], 0), 2))
        listing = asyncio.create_task(shards.list_fresh())
        shards.begin(0, 1, stored(MAP, 1))
        assert FOREIGN[0] not in shards.holding.uses(NAMES)
        await until(lambda: not shards.holding.fresh)
        assert ["pods"] == lists
        assert FOREIGN[0] in shards.holding.uses(NAMES)
        listing.cancel()

    asyncio.run(story())
