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

from maar.config.problems import Findings, unknown
from maar.config.yaml_text import read_yaml
from maar.controller.brakes import Brakes, Settings
from maar.kube.wire.decoding import decode
from maar.kube.wire.errors import FieldError

logger = logging.getLogger("maar.brakes")

INTERVAL = 1.0

KNOWN = tuple(field.encode_name for field in msgspec.structs.fields(Settings))


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
            self._refuse(f"{self._path}: {error.strerror or error}")
            return
        if text == self._seen:
            return
        self._seen = text
        try:
            self._brakes.settings = read_brakes(text, str(self._path))
        except ValueError as error:
            self._refuse(str(error))
        else:
            self.problem = ""
            logger.info("brakes: %s", self._brakes.settings)
            for listener in self.on_changed:
                listener()

    def _refuse(self, problem: str) -> None:
        if problem != self.problem:
            logger.error("brakes refused, those before stay: %s", problem)
        self.problem = problem

    async def watch(self) -> None:
        """Look again and again until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(INTERVAL)


def read_brakes(text: bytes, source: str) -> Settings:
    """What a file says, else a `ValueError` with all that is wrong with it.

    A key that is given twice is refused: whoever wrote the other one would rely on it in vain.
    """
    findings = Findings(source)
    try:
        document = read_yaml(text.decode(), findings) or {}
        if isinstance(document, dict):
            for name in (str(key) for key in document if key not in KNOWN):
                findings.problem(name, unknown("brake", name, KNOWN))
        if not findings.problems and not findings.warnings:
            return decode(document, Settings)
    except UnicodeDecodeError:
        findings.problem("", "expected text in UTF-8")
    except FieldError as error:
        findings.problem(error.field, error.problem)
    raise ValueError("; ".join([*findings.problems, *findings.warnings]))
