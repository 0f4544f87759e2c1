"""Words of messages that all layers share: suggestions for unknown names, and counts with their nouns.

Numbers that people read have thousands separators (`1,028`); JSON never has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

COMPARED = 1000
"""Names that are compared with a wrong one. Tuned by hand: it takes some milliseconds."""
SHOWN = 20
"""Known names that a message lists; the rest is counted. Tuned by hand."""


def unknown(what: str, name: str, known: Iterable[str], also: Iterable[str] = (), most: int | None = None) -> str:
    """A message for an unknown name, with a suggestion and the known names. `also` is suggested but not listed.

    `most`: how many are listed, where there may be many.
    """
    names = sorted(known)
    close = closest(name, [*names, *also])
    meant = f"did you mean `{close}`? " if close else ""
    return f"unknown {what} `{name}`; {meant}known: {listed(names, most) or 'none'}"


def listed(names: Sequence[str], most: int | None = SHOWN) -> str:
    """Names in one line; of many only the first, and how many there are besides."""
    if most is None or len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {number(len(names) - most)} more"


def closest(name: str, names: Iterable[str]) -> str | None:
    """The known name that was probably meant.

    A name that differs only in case and punctuation comes first, then the longest that has only some of the dotted
    parts (`binpack.cpu` for `binpack.cpu.weight`, `mostrequested.weight` for `nodeorder.mostrequested.weight`).
    """
    known = list(names)
    for other in known:
        if plain(other) == plain(name):
            return other
    parts = [n for n in known if name.startswith(f"{n}.")] or [n for n in known if name.endswith(f".{n}")]
    if parts:
        return max(parts, key=len)
    return next(iter(get_close_matches(name, known, n=1)), None)


def nearest(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """The known names that were probably meant, as `namespace/name`, the nearest first: also in other namespaces.

    Only the first of very many names are compared, so that the answer is quick.
    """
    known = list(islice(names, COMPARED))
    last = name.rpartition("/")[2]
    elsewhere = [other for other in known if other.rpartition("/")[2] == last]
    return list(dict.fromkeys((*elsewhere, *get_close_matches(name, known, n=most))))[:most]


def meant(names: Sequence[str]) -> str:
    """A suggestion to append to a message; empty if there is none."""
    return f"; did you mean {' or '.join(f'`{name}`' for name in names)}?" if names else ""


def plain(name: str) -> str:
    """A name without case and punctuation."""
    return "".join(c for c in name if c.isalnum()).lower()


def number(amount: int) -> str:
    """A number for people.

    >>> number(1028)
    '1,028'
    """
    return f"{amount:,}"


def count(amount: int, what: str, many: str = "") -> str:
    """A number with its noun; `many` is the plural where it has no `s`.

    >>> count(1, "worker"), count(0, "pod"), count(1028, "job"), count(2, "entry", "entries")
    ('1 worker', '0 pods', '1,028 jobs', '2 entries')
    """
    return f"{number(amount)} {what if amount == 1 else many or f'{what}s'}"


def span(first: str, last: str) -> str:
    """A range; one value if both ends read the same.

    >>> span("5m", "2h"), span("1h", "1h")
    ('5m to 2h', '1h')
    """
    return first if first == last else f"{first} to {last}"
