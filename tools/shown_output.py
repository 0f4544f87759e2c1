"""Write the output of commands into the pages that show them.

    python tools/shown_output.py

In an indented block, a line `$ maar ...` is a command and the lines below it are its output. This script runs each
command from the root of the checkout and replaces output that differs. `tests/test_docs.py` checks the blocks.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
INDENT = "    "
COMMAND = re.compile(r"^    \$ (maar .*)\n", re.MULTILINE)


class Shown(NamedTuple):
    """A command in a page, and where its output begins and ends in the text."""

    command: str
    begin: int
    end: int


def pages() -> list[Path]:
    """All pages for readers."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def shown(text: str) -> Iterator[Shown]:
    """The commands of a page with their output, which ends at the next command or at the end of the block."""
    for found in COMMAND.finditer(text):
        end = found.end()
        for line in text[found.end() :].splitlines(keepends=True):
            if line.startswith(f"{INDENT}$ ") or (line.strip() and not line.startswith(INDENT)):
                break
            end += len(line)
        yield Shown(found.group(1), found.end(), end)


def output(command: str) -> list[str]:
    """The output of a command, as the lines of a page."""
    arguments = [sys.executable, "-m", "maar.cli.main", *shlex.split(command)[1:]]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True)
    return [f"{INDENT}{line}".rstrip() for line in done.stdout.strip("\n").splitlines()]


def refreshed(text: str) -> str:
    """The page with current output."""
    for block in reversed(list(shown(text))):
        text = text[: block.begin] + "\n".join(output(block.command)) + "\n\n" + text[block.end :]
    return text.rstrip("\n") + "\n"


def main() -> None:
    """Refresh every page, and print the names of changed pages."""
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = refreshed(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"changed: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
