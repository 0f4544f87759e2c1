"""What commands write to standard output and standard error. All of it goes through this module.

Names and messages come from files and from objects of other people. Control characters in them must not reach a
terminal: `escaped` shows them as text. Tables and long text are made in `printing`.
"""

from __future__ import annotations

import re
import sys

import click

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters of ASCII and Latin-1, line separators, marks that turn the direction of text, and lone surrogates,
which cannot be encoded."""
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def escaped(text: str, keep: str = "") -> str:
    r"""The text with control characters as escapes, all but those to `keep`.

    >>> escaped("a\x1b[31m\nb\u202ec")
    'a\\x1b[31m\\nb\\u202ec'
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}")


def escaped_json(text: str) -> str:
    r"""JSON text with the control characters that JSON allows in strings as `\u` escapes; it means the same."""
    return _CONTROL.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


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
