"""The error of a trace that cannot be read: it lists all bad rows, and no row is dropped."""

from __future__ import annotations

MOST = 20
"""Maximum number of problems in the message: a file with more is probably in another format."""


class TraceError(Exception):
    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        """One line each: place, column, expected value and actual value."""
        more = len(problems) - MOST
        self.lines = problems[:MOST] + ([f"and {more} more"] if more > 0 else [])
        super().__init__("\n".join(self.lines))
