"""The problems of a configuration, collected while it is read and reported together.

Every part of the reader (`config.file` and its helpers) reports here and continues, so that a person can correct all
problems of a file at once. What a file asks for and Maar does not know is a problem; a lenient reader skips it with a
warning that says what is lost.
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


def unknown(what: str, name: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    """A message for an unknown name, with a suggestion and the known names. `also` is suggested but not listed."""
    names = sorted(known)
    close = closest(name, [*names, *also])
    meant = f"did you mean `{close}`? " if close else ""
    return f"unknown {what} `{name}`; {meant}known: {', '.join(names) or 'none'}"


def closest(name: str, names: Iterable[str]) -> str | None:
    """The known name that was probably meant.

    A name that differs only in case and punctuation comes first, then the longest that has only some of the dotted
    parts (`binpack.cpu` for `binpack.cpu.weight`, `mostrequested.weight` for `nodeorder.mostrequested.weight`).
    """
    known = list(names)
    for other in known:
        if plain(other) == plain(name):
            return other
    parts = [n for n in known if name.startswith(f"{n}.")] or [n for n in known if name.endswith(f".{n}")]
    if parts:
        return max(parts, key=len)
    return next(iter(get_close_matches(name, known, n=1)), None)


def plain(name: str) -> str:
    """A name without case and punctuation."""
    return "".join(c for c in name if c.isalnum()).lower()


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
