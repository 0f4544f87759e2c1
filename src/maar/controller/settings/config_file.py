"""Files that are read again whenever they change while Maar runs, such as the configuration.

The kubelet updates a mounted ConfigMap by swapping a symbolic link, so contents are compared, not times. Invalid
content at the start ends Maar. Later it is refused with its errors, and the previous content stays in use.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from maar.config.config import Config
from maar.config.file import ConfigError, default_config, read_config
from maar.registry import catalog

INTERVAL = 1.0
"""Seconds between two checks of a file; the kubelet needs longer than that to update a mounted ConfigMap."""


class WatchedFile(ABC):
    """A file, and the content of it that is in use."""

    def __init__(self, path: Path | None, what: str, logger: logging.Logger) -> None:
        """Read the file; raises `OSError` or `ConfigError`. Without a path, nothing is read."""
        self._path = path
        self._what = what
        self._logger = logger
        self._seen: bytes | None = None
        self.problems: list[str] = []
        """Why the file is refused; empty while its content is in use."""
        self.on_refused: list[Callable[[list[str]], None]] = []
        self.on_changed: list[Callable[[], None]] = []
        if path is not None:
            self._seen = self._content(path)
            self._take(self._seen, str(path))

    @abstractmethod
    def _take(self, data: bytes, source: str) -> None:
        """Use the content; raises `ConfigError` if it is invalid."""

    def _content(self, path: Path) -> bytes:
        return path.read_bytes()

    def look(self) -> None:
        """Read the file again if its content has changed."""
        if self._path is None:
            return
        try:
            data = self._content(self._path)
            if data == self._seen:
                return
            self._seen = data
            self._take(data, str(self._path))
        except OSError as error:
            self._seen = None
            self._refuse([f"{self._path}: {error.strerror}"])
            return
        except ConfigError as error:
            self._refuse(error.problems)
            return
        except Exception as error:  # a bug of ours: the previous content stays in use, and decisions go on
            self._refuse([f"{self._path}: cannot be read because of a bug: {type(error).__name__}: {error}"])
            return
        self.problems = []
        self._logger.info("%s reloaded: %s", self._what, self._path)
        for listener in self.on_changed:
            listener()

    def _refuse(self, problems: list[str]) -> None:
        if problems == self.problems:
            return
        self.problems = problems
        for problem in problems:
            self._logger.error("%s refused, the previous one stays in use: %s", self._what, problem)
        for listener in self.on_refused:
            listener(problems)

    async def watch(self) -> None:
        """Check the file regularly until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            self.look()


class ConfigFile(WatchedFile):
    """The configuration in use."""

    def __init__(self, path: Path | None, lenient: bool = False) -> None:
        """Without a path: Maar's default configuration."""
        self._lenient = lenient
        self.text: str | None = None
        """The text in use; `None` for Maar's default configuration."""
        if path is None:
            self.config: Config = default_config(catalog())
        super().__init__(path, "configuration", logging.getLogger("maar.config"))

    def current(self) -> tuple[Config, str | None]:
        return self.config, self.text

    def _take(self, data: bytes, source: str) -> None:
        text = text_of(data, source)
        loaded = read_config(text, source, catalog(), self._lenient)
        self.config, self.text = loaded.config, text
        for warning in loaded.warnings:
            self._logger.warning("%s", warning)


def text_of(data: bytes, source: str) -> str:
    """The content of a file as text; raises `ConfigError` if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError([f"{source}: not UTF-8: {error.reason} at byte {error.start}"]) from None
