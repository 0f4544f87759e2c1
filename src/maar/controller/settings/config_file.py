"""Files that are read again whenever they change while Maar runs, such as the configuration.

The kubelet updates a mounted ConfigMap by swapping a symbolic link, so contents are compared, not times. Invalid
content at the start ends Maar. Later it is refused with its errors, and the previous content stays in use. Files are
read and parsed in a thread, so that a slow disk or a long text holds up neither decisions nor the lease.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from maar.config.config import Config
from maar.config.file import ConfigError, Loaded, default_config, read_config
from maar.files import read_regular
from maar.history.thread import Thread
from maar.registry import catalog

INTERVAL = 1.0
"""Seconds between two checks of a file; the kubelet needs longer than that to update a mounted ConfigMap."""
MOST_PROBLEMS = 20
"""Problems of one file that are logged; tuned by hand."""

T = TypeVar("T")


class WatchedFile(ABC, Generic[T]):
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
            self._use(self._parsed(self._seen, str(path)))

    @abstractmethod
    def _parsed(self, data: bytes, source: str) -> T:
        """What the content says; raises `ConfigError` if it is invalid. Runs in a thread, and changes nothing."""

    @abstractmethod
    def _use(self, content: T) -> None:
        """Use valid content from now on."""

    def _content(self, path: Path) -> bytes:
        return read_regular(path)

    def look(self) -> None:
        """Read the file again if its content has changed."""
        self._found()()

    def _found(self) -> Callable[[], None]:
        """Read the file, and return what follows from it; changes nothing that others see."""
        if self._path is None:
            return lambda: None
        try:
            data = self._content(self._path)
            if data == self._seen:
                return lambda: None
            self._seen = data
            content = self._parsed(data, str(self._path))
            return lambda: self._changed(content)
        except OSError as error:
            self._seen, problems = None, [f"{self._path}: {error.strerror}"]
        except ConfigError as error:
            problems = error.problems
        except Exception as error:  # noqa: BLE001 a bug of ours: the previous content stays in use, and decisions go on
            problems = [f"{self._path}: cannot be read because of a bug: {type(error).__name__}: {error}"]
        return lambda: self._refuse(problems)

    def _changed(self, content: T) -> None:
        self._use(content)
        self.problems = []
        self._logger.info("%s reloaded: %s", self._what, self._path)
        for listener in self.on_changed:
            listener()

    def _refuse(self, problems: list[str]) -> None:
        if len(problems) > MOST_PROBLEMS:
            problems = [*problems[:MOST_PROBLEMS], f"{self._path}: {len(problems) - MOST_PROBLEMS} more problems"]
        if problems == self.problems:
            return
        self.problems = problems
        for problem in problems:
            self._logger.error("%s refused, the previous one stays in use: %s", self._what, problem)
        for listener in self.on_refused:
            listener(problems)

    async def watch(self) -> None:
        """Check the file regularly until cancelled."""
        if self._path is None:
            await asyncio.Event().wait()
            return
        thread = Thread("maar-files")  # the program does not wait at its end for a disk that does not answer
        try:
            while True:
                await asyncio.sleep(INTERVAL)
                (await thread.call(self._found))()
        finally:
            thread.stop()


class ConfigFile(WatchedFile[tuple[Loaded, str]]):
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

    def _parsed(self, data: bytes, source: str) -> tuple[Loaded, str]:
        text = text_of(data, source)
        return read_config(text, source, catalog(), self._lenient), text

    def _use(self, content: tuple[Loaded, str]) -> None:
        loaded, self.text = content
        self.config = loaded.config
        for warning in loaded.warnings:
            self._logger.warning("%s", warning)


def text_of(data: bytes, source: str) -> str:
    """The content of a file as text; raises `ConfigError` if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError([f"{source}: not UTF-8: {error.reason} at byte {error.start}"]) from None
