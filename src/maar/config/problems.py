"""The problems of a configuration, collected while it is read and reported together.

Every part of the reader (`config.file` and its helpers) reports here and continues, so that a person can correct all
problems of a file at once. What a file asks for and Maar does not know is a problem; a lenient reader skips it with a
warning that says what is lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from maar.model.words import closest, unknown


class ConfigError(Exception):
    """The configuration cannot be used."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        """All problems, each with the file and the path in it."""


class Findings:
    """Problems and warnings of one file."""

    def __init__(self, source: str, lenient: bool = False) -> None:
        self.source = source
        self.lenient = lenient
        """Skip what is unknown instead of refusing the file."""
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def problem(self, path: str, text: str) -> None:
        """Report that the file cannot be used."""
        self.problems.append(self._at(path, text))

    def warn(self, path: str, text: str) -> None:
        """Report that part of the file has no effect."""
        self.warnings.append(self._at(path, text))

    def unknown(
        self,
        path: str,
        what: str,
        name: str,
        known: Iterable[str],
        *,
        lost: str,
        also: Iterable[str] = (),
        advice: str = "",
    ) -> None:
        """Report an unknown name: a problem, or if lenient a warning. `advice` replaces the suggestion and the list."""
        if not self.lenient:
            self.problem(path, f"unknown {what} `{name}`; {advice}" if advice else unknown(what, name, known, also))
            return
        close = closest(name, [*known, *also])
        meant = advice or (f"did you mean `{close}`?" if close else "")
        self.warn(path, f"unknown {what} `{name}` is skipped: {lost}" + (f"; {meant}" if meant else ""))

    def _at(self, path: str, text: str) -> str:
        return f"{self.source}: {path}: {text}" if path else f"{self.source}: {text}"


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
