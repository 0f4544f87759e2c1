"""The brakes' settings in a file, read again whenever it changes: the owner's hand on a running scheduler.

    paused: false
    perMinute: 20
    queuesOff: [production]

A file that does not make sense is refused and the settings before stay; a file that is gone means no brakes. Whoever
starts looks once before anything is decided: a file that is refused then must not mean none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec
import yaml

from maar.controller.brakes import Brakes, Settings

logger = logging.getLogger("maar.brakes")

INTERVAL = 1.0


class BrakeFile:
    """Keeps brakes as a file says."""

    def __init__(self, path: Path, brakes: Brakes) -> None:
        self._path = path
        self._brakes = brakes
        self._seen: bytes | None = None
        self.problem = ""
        self.on_changed: list[Callable[[], None]] = []

    def look(self) -> None:
        """Read the file if it is another than the last time."""
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            text = b""
        except OSError as error:
            self._seen = None
            self._refuse(error.strerror or str(error))
            return
        if text == self._seen:
            return
        self._seen = text
        try:
            self._brakes.settings = msgspec.convert(yaml.load(text, yaml.CSafeLoader) or {}, Settings)
        except (yaml.YAMLError, ValueError) as error:  # also what is no text, no setting, or a date that does not exist
            self._refuse(str(error))
        else:
            self.problem = ""
            logger.info("brakes: %s", self._brakes.settings)
            for listener in self.on_changed:
                listener()

    def _refuse(self, why: str) -> None:
        problem = f"{self._path}: {why}"
        if problem != self.problem:
            logger.error("brakes refused, those before stay: %s", problem)
        self.problem = problem

    async def watch(self) -> None:
        """Look again and again until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(INTERVAL)
