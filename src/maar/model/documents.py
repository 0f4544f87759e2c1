"""Text to plain data: the only reader of YAML and JSON documents, for configuration files, manifests and job lists.

It is in the lowest layer because the pure half and `kube` both need it and neither may import the other. It knows no
file names and no fields: the caller says which file a `DocumentError` is about.

Scalars are read as kubectl reads them: times and base-60 numbers stay text, since no field that Maar reads is either.
Text that begins like JSON is read as JSON, which is some thirty times faster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

import msgspec
import yaml


class Place(NamedTuple):
    """Where in a text, from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class DocumentError(ValueError):
    """Text that is neither YAML nor JSON."""

    def __init__(self, problem: str, place: Place | None = None) -> None:
        super().__init__(problem if place is None else f"{place}: {problem}")
        self.problem = problem
        self.place = place


class TooDeep(DocumentError):
    """Text that may be valid, but is nested too deep to be read."""


Repeated = Callable[[Place, str], None]
"""Told where a mapping gives a key again. It may refuse that with a `DocumentError`; if not, the last value counts."""


def refuse_repeated(place: Place, key: str) -> None:
    """Refuse a key that is given twice: nobody can know which one was meant."""
    raise DocumentError(f"`{key}` is given twice", place)


def documents(text: str | bytes, repeated: Repeated | None = None) -> Iterator[Any]:
    """All documents of a text, empty ones as `None`; without `repeated`, keys given twice are not looked for."""
    start = text.lstrip("\ufeff \t\r\n") if isinstance(text, str) else text.lstrip(b"\xef\xbb\xbf \t\r\n")
    try:
        found = _json(text, repeated is not None) if start[:1] in ("{", "[", b"{", b"[") else None
        yield from _yaml(text, repeated) if found is None else found
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise DocumentError(str(error.problem or error.context), None if mark is None else _place(mark)) from None
    except RecursionError:
        raise TooDeep("lists and mappings lie too deep in each other") from None
    except DocumentError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        # No mark: a character that YAML forbids, or a number with too many digits.
        raise DocumentError(str(error).splitlines()[0]) from None


def _json(text: str | bytes, once: bool) -> list[Any] | None:
    """JSON documents, one after the other; `None` where it is not JSON after all: YAML may begin with a brace too, and
    says where a text breaks, or with `once` where a key is given twice."""
    if not once:
        try:
            return [msgspec.json.decode(text)]
        except msgspec.DecodeError:
            pass
    decoder = json.JSONDecoder(object_pairs_hook=_once if once else None, parse_constant=_no_number)
    found, at = [], 0
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        while (at := _skip(decoded, at)) < len(decoded):
            document, at = decoder.raw_decode(decoded, at)
            found.append(document)
    except ValueError:
        return None
    return found


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key is given twice")
    return made


def _no_number(said: str) -> Any:
    """Python reads `NaN` and `Infinity`, which JSON does not have."""
    raise ValueError(said)


def _yaml(text: str | bytes, repeated: Repeated | None) -> Iterator[Any]:
    loader = _Loader(text, repeated)
    try:
        while loader.check_data():  # type: ignore[no-untyped-call]
            yield loader.get_data()
    finally:
        loader.dispose()


def _place(mark: yaml.Mark) -> Place:
    return Place(mark.line + 1, mark.column + 1)


class _Loader(yaml.CSafeLoader):
    """libyaml's loader with the scalars of YAML 1.2, but for `yes` and `no`, which kubectl takes as booleans too."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def __init__(self, text: str | bytes, repeated: Repeated | None) -> None:
        super().__init__(text)
        self._repeated = repeated

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping, after its keys are looked at."""
        if self._repeated is not None:
            seen: set[str] = set()
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                if key.value in seen:
                    self._repeated(_place(key.start_mark), key.value)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_TAG = "tag:yaml.org,2002:"
for _name, _pattern, _first in (
    ("bool", r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("int", r"[-+]?0b[01_]+|[-+]?0x[0-9a-fA-F_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?", "-+0123456789."),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("merge", r"<<", "<"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
):
    _firsts = [c if c != "\0" else "" for c in _first]
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_pattern})$"), _firsts)
