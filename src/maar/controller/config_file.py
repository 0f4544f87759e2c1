"""The configuration file, read again whenever it changes, while running.

A mounted ConfigMap changes by a symbolic link that is swapped, so it is the content that is compared, not times. A file
that does not make sense is refused with its errors, and the configuration before stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from maar.config.config import Config
from maar.config.file import ConfigError, default_config, read_config
from maar.registry import catalog

logger = logging.getLogger("maar.config")

INTERVAL = 1.0
"""Seconds between two looks at the file; the kubelet takes longer than that to bring a changed ConfigMap."""


class ConfigFile:
    """The configuration in force."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: str | None = None
        self.text: str | None = None
        """The text in force; `None` for Maar's own configuration."""
        self.problems: list[str] = []
        """What was wrong with the last file that was refused; empty once a good one is there."""
        self.on_refused: list[Callable[[list[str]], None]] = []
        self.on_changed: list[Callable[[], None]] = []
        if path is None:
            self.config: Config = default_config(catalog())
        else:
            self._seen = self.text = _text_of(path)
            loaded = read_config(self.text, str(path), catalog())
            self.config = loaded.config
            for warning in loaded.warnings:
                logger.warning("%s", warning)

    def current(self) -> tuple[Config, str | None]:
        """The configuration in force and its text."""
        return self.config, self.text

    def look(self) -> None:
        """Read the file again if it is another than the last time."""
        if self._path is None:
            return
        try:
            text = _text_of(self._path)
            if text == self._seen:
                if text == self.text:
                    self.problems = []  # It was away, or no text, and is back as it was.
                return
            self._seen = text
            loaded = read_config(text, str(self._path), catalog())
        except OSError as error:
            self._refuse([f"{self._path}: {error.strerror}"])
            return
        except ConfigError as error:
            self._refuse(error.problems)
            return
        self.config, self.text, self.problems = loaded.config, text, []
        for warning in loaded.warnings:
            logger.warning("%s", warning)
        logger.info("configuration read anew: %s", self._path)
        for listener in self.on_changed:
            listener()

    def _refuse(self, problems: list[str]) -> None:
        if problems == self.problems:
            return
        self.problems = problems
        for problem in problems:
            logger.error("configuration refused, the one before stays: %s", problem)
        for listener in self.on_refused:
            listener(problems)

    async def watch(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            self.look()


def _text_of(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not UTF-8: {error.reason} at byte {error.start}"]) from None
