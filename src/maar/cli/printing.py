"""Prints text and tables at the width of the terminal; without a terminal nothing is wrapped.

Names are printed unchanged: rich must not interpret markup or emoji codes in them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from io import StringIO

from rich.console import Console, RenderableType

UNWRAPPED = 10_000
"""Line width without a terminal: more than any reason needs."""


def printed(parts: Iterable[RenderableType]) -> str:
    """All parts as text, each on its own lines; an empty part is an empty line."""
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
    """The parts, with an empty line after each."""
    for part in parts:
        yield from (part, "")
