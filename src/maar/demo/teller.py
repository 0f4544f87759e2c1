"""The output of `maar demo`: titles, lines with times, reasons with their place, pictures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial

from maar.demo.box import Box
from maar.demo.manifests import Elastic, Gang
from maar.demo.picture import letter, picture

Say = Callable[[str], None]
"""Prints one line."""

READING = 5.0
"""Seconds to read the result of one act; the story then takes little more than a minute."""


class Teller:
    """Prints what happens to a cluster."""

    def __init__(self, box: Box, say: Say, speed: float) -> None:
        self.box = box
        self.say = say
        self._speed = speed
        self._started = time.monotonic()
        self._act = 0

    def title(self, title: str) -> None:
        self._act += 1
        self.say("")
        self.say(f"── {self._act}  {title} {'─' * max(72 - len(title), 3)}")

    def tell(self, line: str) -> None:
        self.say(f"{time.monotonic() - self._started:6.1f} s  {line}")

    def why(self, line: str, where: str) -> None:
        """Print a reason, and where users find it."""
        self.say(f"{'':10}  » {line}")
        self.say(f"{'':12}({where})")

    async def show(self, jobs: Iterable[Gang | Elastic] = ()) -> None:
        """Print the picture and a legend of new jobs, and give time to read."""
        self.say("")
        for line in picture(self.box.columns()):
            self.say(f"{'':10}{line}")
        new = ", ".join(f"{letter(job.name)} {job.name}" for job in jobs)
        if new:
            self.say(f"{'':10}{new}")
        self.say("")
        await self.pause()

    async def pause(self, seconds: float = READING) -> None:
        await asyncio.sleep(seconds / self._speed)

    async def until_running(self, *gangs: Gang) -> None:
        for gang in gangs:
            await self.box.until(partial(self.box.runs, gang), f"all pods of {gang.name} run")
