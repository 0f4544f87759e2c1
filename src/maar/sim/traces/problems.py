"""What is wrong with a trace, all of it at once: a row that cannot be read is named, and none is dropped."""

from __future__ import annotations

MOST = 20
"""Problems that are said one by one; a file with more of them is not what its format says."""


class TraceError(Exception):
    """A trace that cannot be read."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        """Each on a line of its own: place, column, what was expected and what is there."""
        more = len(problems) - MOST
        shown = problems[:MOST] + ([f"and {more} more"] if more > 0 else [])
        super().__init__("\n".join(shown))
