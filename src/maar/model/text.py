r"""Text that quotes what tenants write: names in annotations, queues, images, answers of webhooks.

Such text goes on to conditions, events, logs, terminals and pages. A line break in it would forge a line, an escape
sequence would reach a terminal, and a mark that turns the direction of text would change what a reader sees.
"""

from __future__ import annotations

import re

LONGEST_MESSAGE = 2000
"""Characters of one reason; tuned by hand. Values that a reason quotes may have hundreds of thousands."""
LONGEST_NAME = 256
"""Characters of a name: no object of Kubernetes has a longer one."""

CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
"""Control characters of ASCII and Latin-1, line separators, marks that turn the direction of text, characters without
a width, and lone surrogates, which cannot be encoded."""
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def escaped(text: str, keep: str = "") -> str:
    r"""The text with control characters as escapes, all but those to `keep`.

    >>> escaped("a\x1b[31m\nb\u202ec")
    'a\\x1b[31m\\nb\\u202ec'
    """
    if text.isprintable():
        return text
    return CONTROL.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def quoted(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """The text with control characters as escapes, and shortened: for objects that others read."""
    if len(text) > longest:
        text = f"{text[: longest - 3]}..."
    return escaped(text)


def _escape(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}")
