"""Text and tables at the width of the terminal; without a terminal nothing is wrapped.

Names are shown literally: rich must not interpret markup or emoji codes in them, nor a terminal control characters.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from maar.cli.support.output import escaped

UNWRAPPED = 10_000
"""Line width without a terminal: more than any reason needs."""


class SafeConsole(Console):
    """A console that takes text literally: no markup, no emoji codes, no control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Every text that is not a `Text` comes here: cells, titles and whole parts."""
        return super().render_str(escaped(text), **options)

    def on_broken_pipe(self) -> None:
        """Say that the reader of the output went away; rich would end the program with code 1."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def printed(parts: Iterable[RenderableType], width: int = UNWRAPPED) -> str:
    """All parts as text, each on its own lines; an empty part is an empty line. `width` is that without a terminal."""
    terminal = sys.stdout.isatty()
    out = SafeConsole(file=StringIO(), force_terminal=terminal, width=None if terminal else width)
    with out.capture() as capture:
        for part in parts:
            out.print(part)
    return "\n".join(line.rstrip() for line in capture.get().rstrip().split("\n")) + "\n"


def lines(texts: Iterable[str]) -> Text:
    """Several lines in one cell."""
    return Text("\n".join(map(escaped, texts)))


def table(heads: Iterable[str], rows: Iterable[Iterable[RenderableType]]) -> Table:
    """A table with a rule under its headings."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for head in heads:
        made.add_column(head, overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def facts(rows: Iterable[tuple[str, RenderableType]]) -> Padding:
    """Names and values in two columns without headings, indented."""
    made = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for row in rows:
        made.add_row(*row)
    return Padding(made, (0, 0, 0, 2))


def apart(parts: Iterable[RenderableType]) -> Iterable[RenderableType]:
    """The parts, with an empty line after each."""
    for part in parts:
        yield from (part, "")


def when(at: float | None) -> str:
    """A time, in UTC."""
    return "-" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
