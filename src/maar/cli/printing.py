"""Text for people, with tables: as wide as the terminal, and where there is none nothing is wrapped.

Names are printed as they are, whatever rich would take for markup or for an emoji in them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from io import StringIO

from rich.console import Console, RenderableType

UNWRAPPED = 10_000
"""Characters of a line where there is no screen: more than any reason has."""


def printed(parts: Iterable[RenderableType]) -> str:
    """One part after the other, each on lines of its own; an empty text is an empty line."""
    terminal = sys.stdout.isatty()
    out = Console(
        file=StringIO(),
        force_terminal=terminal,
        width=None if terminal else UNWRAPPED,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with out.capture() as capture:
        for part in parts:
            out.print(part)
    return "\n".join(line.rstrip() for line in capture.get().rstrip().splitlines()) + "\n"


def apart(parts: Iterable[RenderableType]) -> Iterable[RenderableType]:
    """An empty line after each."""
    for part in parts:
        yield from (part, "")
