"""The brake file: settings for a running scheduler, read again whenever the file changes.

    paused: false
    perMinute: 20
    queuesOff: [production]

A missing file means no brakes.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from maar.config.problems import ConfigError, Findings
from maar.config.yaml_text import read_yaml
from maar.controller.settings.brakes import Brakes, BrakeSettings
from maar.controller.settings.config_file import WatchedFile, text_of
from maar.kube.wire.decoding import decode
from maar.kube.wire.errors import FieldError
from maar.model.words import unknown

KNOWN = tuple(field.encode_name for field in msgspec.structs.fields(BrakeSettings))


class BrakeFile(WatchedFile[BrakeSettings]):
    """Applies the settings of a file to brakes."""

    def __init__(self, path: Path, brakes: Brakes) -> None:
        self._brakes = brakes
        super().__init__(path, "brake file", logging.getLogger("maar.brakes"))

    def _content(self, path: Path) -> bytes:
        try:
            return super()._content(path)
        except FileNotFoundError:
            return b""

    def _parsed(self, data: bytes, source: str) -> BrakeSettings:
        return read_brakes(data, source)

    def _use(self, content: BrakeSettings) -> None:
        self._brakes.settings = content


def read_brakes(data: bytes, source: str) -> BrakeSettings:
    """The settings in a file. Raises `ConfigError` with all problems; a repeated key is one."""
    findings = Findings(source)
    document = read_yaml(text_of(data, source), findings) or {}
    if isinstance(document, dict):
        for name in (str(key) for key in document if key not in KNOWN):
            findings.problem(name, unknown("brake", name, KNOWN))
    if not findings.problems and not findings.warnings:
        try:
            return decode(document, BrakeSettings)
        except FieldError as error:
            findings.problem(error.field, error.problem)
    raise ConfigError([*findings.problems, *findings.warnings])
