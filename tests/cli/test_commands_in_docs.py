"""Every `maar` command in the documentation exists, with its options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from maar.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def shown(page: Path) -> Iterator[str]:
    """The commands in the indented blocks of a page, without pipes and synopses."""
    text = page.read_text().replace("\\\n", " ")
    for line in re.findall(r"^    (.*)$", text, re.MULTILINE):
        for part in re.split(r"\s+#\s|\s*\|\s*|\s+>\s", line):
            command = part.removeprefix("$ ").strip()
            if command.startswith("maar ") and "[" not in command:
                yield command


def parse(words: list[str]) -> None:
    """Raise if a command or an option is unknown, without running it or opening a file."""
    command: click.Command = main
    context = click.Context(main, info_name="maar")
    while isinstance(command, click.Group):
        name, *words = words
        found = command.get_command(context, name)
        assert found is not None, f"no command: {name}"
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.make_parser(context).parse_args(list(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_their_options_are_there(page: Path) -> None:
    for command in shown(page):
        parse(shlex.split(command)[1:])


def test_there_are_commands_to_look_at() -> None:
    assert len([command for page in PAGES for command in shown(page)]) > 30


@pytest.mark.parametrize("command", ["rnu", "run --no-such", "trace no-such", "plan --cycles"])
def test_what_is_not_there_is_noticed(command: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        parse(command.split())
