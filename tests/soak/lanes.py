"""What happens during a soak: several lanes of faults side by side, each at random and at its own pace."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from tests.support.faults import troubles
from tests.support.faults.stage import Stage
from tests.support.faults.witness import Wrong
from tests.support.postgres import Postgres

STORM_S, CALM_S = 30.0, 20.0
"""Kills and freezes come in storms. Without the calm between them, a busy machine would only start replicas."""
CALM_BINDS = 3
"""Binds before the next storm: a busy machine needs longer to recover."""
KILL_EVERY_S = 2.6
FREEZE_EVERY_S = 8.0
"""In storms. At least 300 kills and 50 freezes in 30 minutes, with time for quiet moments."""
BETWEEN_S = (2.0, 8.0)
"""Pause between two faults of a lane."""
QUIET_EVERY_S = 240.0

Fault = Callable[[], Awaitable[int]]


class Lanes:
    """All faults of a soak."""

    def __init__(self, stage: Stage, postgres: Postgres | None, dice: random.Random) -> None:
        self.faults: Counter[str] = Counter()
        """How often each fault happened."""
        self._stage = stage
        self._dice = dice
        self._open = asyncio.Event()
        self._open.set()
        self._storm = asyncio.Event()
        self._busy = 0
        few = 2
        self._bad_server: dict[str, Fault] = {
            "slow_server": partial(troubles.slow_server, stage, few),
            "cut_watches": partial(troubles.cut_watches, stage, few),
            "failing_writes": partial(troubles.failing_writes, stage, few),
        }
        self._bad_world: dict[str, Fault] = {
            "restart_the_server": partial(troubles.restart_the_server, stage),
            "clock_steps": partial(troubles.clock_steps, stage, 3),
            "full_disk": partial(troubles.full_disk, stage),
            "many_queues": partial(troubles.many_queues, stage, binds=few),
            "connections": partial(troubles.connections, stage, binds=few),
            "lose_a_node": partial(troubles.lose_a_node, stage),
            "cordon": partial(troubles.cordon, stage),
            "hostile": partial(troubles.hostile, stage),
        }
        if postgres is not None:
            self._bad_world["no_postgres"] = partial(troubles.no_postgres, stage, postgres, few)

    async def run(self) -> None:
        """Cause faults until cancelled."""
        stage = self._stage
        async with asyncio.TaskGroup() as group:
            group.create_task(self._steadily({"kill": partial(troubles.kill, stage)}, KILL_EVERY_S))
            group.create_task(self._steadily({"freeze": partial(troubles.freeze, stage)}, FREEZE_EVERY_S))
            group.create_task(self._at_random(self._bad_server))
            group.create_task(self._at_random(self._bad_world))
            group.create_task(self._weather())
            group.create_task(self._quiet_moments())

    async def _steadily(self, faults: Mapping[str, Fault], every: float) -> None:
        """During storms, one fault in each interval."""
        while True:
            await self._storm.wait()
            await asyncio.gather(self._cause(faults), asyncio.sleep(every * self._dice.uniform(0.7, 1.3)))

    async def _weather(self) -> None:
        while True:
            self._storm.set()
            await asyncio.sleep(STORM_S)
            self._storm.clear()
            await asyncio.sleep(CALM_S)
            await self._cause({"calm": self._recovered})

    async def _recovered(self) -> int:
        """Wait until the next storm finds a Maar that works again."""
        await self._stage.progress(CALM_BINDS)
        return 0

    async def _at_random(self, faults: Mapping[str, Fault]) -> None:
        while True:
            await asyncio.sleep(self._dice.uniform(*BETWEEN_S))
            await self._cause(faults)

    async def _cause(self, faults: Mapping[str, Fault]) -> None:
        await self._open.wait()
        name = self._dice.choice(sorted(faults))
        self._busy += 1
        try:
            self.faults[name] += await faults[name]() > 0
        except AssertionError as error:  # nothing was bound for too long
            self._stage.witness.found(Wrong.LOST, f"{name}: {error}")
        finally:
            self._busy -= 1

    async def _quiet_moments(self) -> None:
        """Now and then all faults end, and no gang may be in part."""
        while True:
            await asyncio.sleep(QUIET_EVERY_S)
            self._open.clear()
            await self._stage.until(lambda: not self._busy, "all faults have ended", 900.0)
            await self._stage.heal()
            await self._stage.watching.quiet(self._stage.patience)
            self._open.set()
