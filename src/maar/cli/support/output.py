"""What commands write to standard output and standard error. All of it goes through this module.

Names and messages come from files and from objects of other people. Control characters in them must not reach a
terminal: `escaped` shows them as text. Tables and long text are made in `printing`.
"""

from __future__ import annotations

import json
import sys

import click

from maar.model.text import CONTROL
from maar.model.text import escaped as escaped


def escaped_json(text: str) -> str:
    r"""JSON text with the control characters that JSON allows in strings as `\u` escapes; it means the same."""
    return CONTROL.sub(lambda found: found[0] if found[0] == "\n" else json.dumps(found[0])[1:-1], text)


def say(text: str) -> None:
    """Write to standard output what `printed` made, with its colours."""
    click.echo(text, nl=not text.endswith("\n"), color=True)


def say_json(text: str) -> None:
    """Write JSON text to standard output."""
    say(escaped_json(text))


def say_data(text: str) -> None:
    """Write data to standard output: unchanged, but on a terminal without control characters except line ends."""
    say(escaped(text, keep="\n\t") if sys.stdout.isatty() else text)


def tell(message: str) -> None:
    """Write one line to standard error."""
    click.echo(escaped(message), err=True)
