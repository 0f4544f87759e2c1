"""What the text of an expression says before it is evaluated: the attributes it names, and how much work it can be.

Both err on the safe side. Everything that an expression knows of a device comes through the name `device`, so each
place with that name is looked at: where it is not followed by one attribute, the expression depends on more. Work is
estimated because a running evaluation cannot be interrupted: values that grow by repetition cost without limit. An API
server refuses such expressions too (by its own estimate), but files and questions of `maar web` pass no API server.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

LONGEST = 10 * 1024
"""Bytes of an expression: Kubernetes' limit."""
MOST_WORK = 10_000_000
"""Units of the estimate; the worst expressions known take two seconds with them, useful ones have a few thousand. Tuned
by hand."""
FEWEST_ROUNDS = 32
"""Rounds that a comprehension is thought to have at least: a device has at most 32 attributes and capacities."""

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<key>"[^"\\\n]*"(?!")|'[^'\\\n]*'(?!'))
  | (?P<raw>(?:[rR][bB]?|[bB][rR])(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n]*"|'[^'\n]*'))
  | (?P<text>[bB]?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
  | (?P<name>[A-Za-z_]\w*)
  | (?P<rest>\.\?|\[\?|[0-9.]+|[^\s])
    """,
    re.VERBOSE | re.DOTALL,
)
OPEN = frozenset("\\'\"")
"""What begins a text that has no end; whatever the library makes of that, its work is not known."""
_GROWING = frozenset({"replace", "join", "format"})
_ROUNDS = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter", "transformList", "transformMap"})
_MAPS = ("attributes", "capacity")


class Dependence(NamedTuple):
    """Something of a device that an expression depends on: one attribute or capacity, or a whole domain of them."""

    map: str
    domain: str
    id: str | None
    """`None`: all of the domain."""


class Analysis(NamedTuple):
    """What an expression depends on, besides the driver and whether the device can be shared."""

    named: frozenset[Dependence] | None
    """`None`: all attributes and capacities."""
    work: int


def analysis(expression: str) -> Analysis:
    """What the text of an expression says."""
    tokens = []
    for match in _TOKEN.finditer(expression):
        group, text = match.lastgroup or "", match.group()
        if group == "rest" and text in OPEN:
            return Analysis(None, MOST_WORK + 1)
        if group != "space":
            tokens.append((group, text))
    return Analysis(_named(tokens), _work(tokens, len(expression)))


def _named(tokens: list[tuple[str, str]]) -> frozenset[Dependence] | None:
    if ("rest", "`") in tokens:
        return None  # a quoted name
    found = set()
    padded = [*tokens, *([("", "")] * 6)]
    for i, (group, text) in enumerate(tokens):
        if (group, text) != ("name", "device"):
            continue
        dot, (kind, field) = padded[i + 1][1], padded[i + 2]
        if dot != "." or kind != "name":
            return None
        if field not in _MAPS:
            continue
        opens, (kind, domain), closes = padded[i + 3][1], padded[i + 4], padded[i + 5][1]
        if opens not in ("[", "[?") or kind != "key" or closes != "]":
            return None
        found.add(Dependence(field, domain[1:-1], _one(padded[i + 6 : i + 9])))
    return frozenset(found)


def _one(tokens: list[tuple[str, str]]) -> str | None:
    """The attribute that is selected by the tokens after its domain; `None`: the domain as a whole is used."""
    texts = [text for _, text in tokens]
    kinds = [kind for kind, _ in tokens]
    if texts[:1] in (["."], [".?"]) and kinds[1:2] == ["name"]:
        return texts[1] if texts[2:3] != ["("] else None
    if texts[:1] in (["["], ["[?"]) and kinds[1:2] == ["key"] and texts[2:3] == ["]"]:
        return texts[1][1:-1]
    return None


def _work(tokens: list[tuple[str, str]], length: int) -> int:
    """An upper bound of the size of values times the rounds, in characters."""
    names = Counter(text for group, text in tokens if group == "name")
    work = max(length, 1)
    rounds = length if "split" in names else max(FEWEST_ROUNDS, length // 8)
    for i, (group, text) in enumerate(tokens):
        if group != "name":
            continue
        if text == "bind" and i + 2 < len(tokens):
            work *= max(1, names[tokens[i + 2][1]] - 1)
        elif text in _GROWING:
            work *= max(1, length)
        elif text in _ROUNDS:
            work *= rounds
        if work > MOST_WORK:
            break
    return work
