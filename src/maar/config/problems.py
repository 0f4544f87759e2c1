"""What is wrong with a configuration, in words: collected while it is read, said all at once.

Every part of the reader (`config_file` and its neighbours) reports here and goes on with the next thing, so that
a person mends a file once and not problem by problem.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ConfigError(Exception):
    """A configuration that cannot be used."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        """All of them, each with its file and its path there."""


class Findings:
    """What has been found in one file so far."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def problem(self, path: str, text: str) -> None:
        """The file cannot be used."""
        self.problems.append(self._at(path, text))

    def warn(self, path: str, text: str) -> None:
        """The file can be used, but not all that it says."""
        self.warnings.append(self._at(path, text))

    def _at(self, path: str, text: str) -> str:
        return f"{self.source}: {path}: {text}" if path else f"{self.source}: {text}"


def unknown(what: str, name: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    """A name nobody knows: what was probably meant, and what there is. `also` can be meant, but is not listed."""
    names = sorted(known)
    close = get_close_matches(name, [*names, *also], n=1)
    meant = f"did you mean `{close[0]}`? " if close else ""
    return f"unknown {what} `{name}`; {meant}known: {', '.join(names) or 'none'}"


def shown(value: object) -> str:
    """A value from a file, as its author would recognise it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"`{value}`"
