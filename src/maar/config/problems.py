"""The problems of a configuration, collected while it is read and reported together.

Every part of the reader (`config.file` and its helpers) reports here and continues, so that a person can correct all
problems of a file at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ConfigError(Exception):
    """The configuration cannot be used."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        """All problems, each with the file and the path in it."""


class Findings:
    """Problems and warnings of one file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def problem(self, path: str, text: str) -> None:
        """Report that the file cannot be used."""
        self.problems.append(self._at(path, text))

    def warn(self, path: str, text: str) -> None:
        """Report that part of the file has no effect."""
        self.warnings.append(self._at(path, text))

    def _at(self, path: str, text: str) -> str:
        return f"{self.source}: {path}: {text}" if path else f"{self.source}: {text}"


def unknown(what: str, name: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    """A message for an unknown name, with a suggestion and the known names. `also` is suggested but not listed."""
    names = sorted(known)
    close = get_close_matches(name, [*names, *also], n=1)
    meant = f"did you mean `{close[0]}`? " if close else ""
    return f"unknown {what} `{name}`; {meant}known: {', '.join(names) or 'none'}"


def shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"`{value}`"
