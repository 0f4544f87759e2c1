"""The only reader of YAML and JSON text, for configuration files, manifests and job lists.

It is in the lowest layer because the pure half and `kube` both need it and neither may import the other. It knows no
file names and no fields: the caller adds the file name to a `DocumentError`.

Scalars are read as kubectl reads them. Times and base-60 numbers stay text, because no field that Maar reads is either.
Text that starts like JSON is parsed as JSON, which is about 30 times faster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

import msgspec
import yaml

MOST_VALUES = 1_000_000
"""The most values of a document with aliases, each counted as often as it is repeated; tuned by hand. Ten lines of
aliases can stand for billions of values."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class TextPosition(NamedTuple):
    """A position in a text, counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class DocumentError(ValueError):
    """The text is neither YAML nor JSON."""

    def __init__(self, problem: str, place: TextPosition | None = None) -> None:
        super().__init__(problem if place is None else f"{place}: {problem}")
        self.problem = problem
        self.place = place


class TooDeep(DocumentError):
    """The text may be valid, but its nesting is too deep to read."""


Repeated = Callable[[TextPosition, str], None]
"""Called for a repeated key of a mapping. It may raise a `DocumentError`; otherwise the last value counts."""


def refuse_repeated(place: TextPosition, key: str) -> None:
    """Refuse a repeated key: it is unclear which value the author meant."""
    raise DocumentError(f"`{key}` is given twice", place)


def documents(text: str | bytes, repeated: Repeated | None = None) -> Iterator[Any]:
    """All documents of a text; an empty document is `None`. Without `repeated`, repeated keys are not detected."""
    start = text.lstrip("\ufeff \t\r\n") if isinstance(text, str) else text.lstrip(b"\xef\xbb\xbf \t\r\n")
    try:
        found = _json(text, repeated is not None) if start[:1] in ("{", "[", b"{", b"[") else None
        yield from _yaml(text, repeated) if found is None else found
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise DocumentError(str(error.problem or error.context), None if mark is None else _place(mark)) from None
    except RecursionError:
        raise TooDeep("lists and mappings are nested too deeply") from None
    except DocumentError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        # The error has no position: a character that YAML forbids, or a number with too many digits.
        raise DocumentError(str(error).splitlines()[0]) from None


def _json(text: str | bytes, once: bool) -> list[Any] | None:
    """All JSON documents of the text. `None` if it is not JSON, or if `once` and a key is repeated.

    The caller then parses it as YAML, which can also start with a brace and reports the position of an error."""
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
        if _SURROGATE.search(decoded):
            msgspec.json.encode(found)  # a half of a surrogate pair, which Python accepts, is no text
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


def _no_number(constant: str) -> Any:
    """Refuse `NaN` and `Infinity`, which Python accepts and JSON does not have."""
    raise ValueError(constant)


def _yaml(text: str | bytes, repeated: Repeated | None) -> Iterator[Any]:
    loader = _Loader(text, repeated)
    try:
        aliases = ("&" if isinstance(text, str) else b"&") in text  # type: ignore[operator]
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            if aliases:
                _check_size(node)
            yield loader.construct_document(node)
    finally:
        loader.dispose()


def _check_size(root: yaml.Node) -> None:
    """Refuse aliases that make a short text huge, or a value a part of itself."""
    sizes: dict[int, int | None] = {}
    _measure(root, sizes)


def _measure(node: yaml.Node, sizes: dict[int, int | None]) -> int:
    """The values below a node, each as often as aliases repeat it; `sizes` has `None` for a node that is not done."""
    known = sizes.get(id(node), 0)
    if known is None:
        raise DocumentError("a value is a part of itself", _place(node.start_mark))
    if known:
        return known
    sizes[id(node)] = None
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        children = [one for pair in node.value for one in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    size = 1 + sum(_measure(child, sizes) for child in children)
    if size > MOST_VALUES:
        raise DocumentError(f"aliases expand it to more than {MOST_VALUES:,} values", _place(node.start_mark))
    sizes[id(node)] = size
    return size


def _place(mark: yaml.Mark) -> TextPosition:
    return TextPosition(mark.line + 1, mark.column + 1)


class _Loader(yaml.CSafeLoader):
    """libyaml's loader with the scalars of YAML 1.2, plus the booleans `yes`, `no`, `on` and `off` of kubectl."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def __init__(self, text: str | bytes, repeated: Repeated | None) -> None:
        super().__init__(text)
        self._repeated = repeated

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
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
