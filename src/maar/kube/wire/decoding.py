"""Decodes a document into a struct; errors name the field as in `spec.containers[0].image`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from maar.kube.wire.errors import FieldError

T = TypeVar("T")

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "`true` or `false`",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}
LONGEST_SHOWN = 60
"""Characters of a value in a message; tuned by hand."""
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")


def decode(document: object, struct: type[T]) -> T:
    """The struct; a null field counts as missing, as in the API server."""
    try:
        return msgspec.convert(document, struct)
    except (msgspec.ValidationError, RecursionError):
        pass
    try:
        cleaned = without_nulls(document)
        return msgspec.convert(cleaned, struct)
    except RecursionError:
        raise FieldError("document", "nested too deeply, or an anchor refers to itself") from None
    except msgspec.ValidationError as error:
        raise _field_error(str(error), cleaned) from None


def decode_json(text: bytes, struct: type[T]) -> T:
    """Like `decode`, from JSON."""
    try:
        return msgspec.json.decode(text, type=struct)
    except msgspec.ValidationError:
        return decode(msgspec.json.decode(text), struct)


def without_nulls(document: object) -> object:
    """The document without its null fields."""
    if isinstance(document, dict):
        return {key: without_nulls(value) for key, value in document.items() if value is not None}
    if isinstance(document, list):
        return [without_nulls(value) for value in document]
    return document


def invalid_field(message: str, document: object) -> list[str]:
    """The path of the field that an error of msgspec is about."""
    what, steps, got = _parts(message)
    if "- at `key" in message or "missing required field" in what:
        return steps
    return _find(document, steps, got)[0]


def _parts(message: str) -> tuple[str, list[str], str]:
    """What an error of msgspec says, the steps to the field, and the type that it got."""
    what, _, where = message.partition(" - at ")
    got = re.search(r"got `(\w+)`", what)
    return what, [a or b for a, b in _STEP.findall(where.strip("`"))], got.group(1) if got else ""


def _field_error(message: str, document: object) -> FieldError:
    """Translates an error of msgspec: ``Expected `int`, got `str` - at `$.spec.minMember` ``."""
    what, steps, got = _parts(message)
    expected = re.search(r"Expected `([^`]+)`", what)
    if "- at `key" in message:
        return FieldError(_path(steps) or "document", "expected keys to be text")
    if missing := re.search(r"missing required field `(\w+)`", what):
        return FieldError(_path([*steps, missing.group(1)]), "missing")
    named, value = _find(document, steps, got)
    field = _path(named) or "document"
    if expected is None or not got:
        return FieldError(field, f"{what[0].lower()}{what[1:]}{_shown(value)}")
    words = [_WORDS.get(kind, f"`{kind}`") for kind in expected.group(1).split(" | ") if kind != "null"]
    return FieldError(field, f"expected {' or '.join(words)}{_shown(value)}{_hint(expected.group(1), value)}")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", got a mapping"
    if isinstance(value, list):
        return ", got a list"
    if isinstance(value, bool):
        return f", got `{str(value).lower()}`"
    return f", got `{_short(str(value))}`" if value is not None else ""


def _short(text: str) -> str:
    """A value in a message: reasons go on to logs, conditions and events."""
    text = text if text.isprintable() else text.encode("unicode_escape").decode()
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def _hint(expected: str, value: object) -> str:
    if expected in ("str", "str | null") and isinstance(value, (bool, int, float)):
        return " (quote it)"
    return ""


def _find(document: object, steps: list[str], kind: str) -> tuple[list[str], object]:
    """The path and value of the invalid field. msgspec omits the keys of maps: the first value of type `kind` is it."""
    return next(_walk(document, steps, kind, []), (steps, None))


def _walk(value: Any, steps: list[str], kind: str, path: list[str]) -> Iterator[tuple[list[str], object]]:
    if not steps:
        if not kind or _kind(value) == kind:
            yield path, value
    elif steps[0] == "..." and isinstance(value, dict):
        for key, inner in value.items():
            yield from _walk(inner, steps[1:], kind, [*path, str(key)])
    elif isinstance(value, dict) and steps[0] in value:
        yield from _walk(value[steps[0]], steps[1:], kind, [*path, steps[0]])
    elif isinstance(value, (list, tuple)) and steps[0].isdecimal() and int(steps[0]) < len(value):
        yield from _walk(value[int(steps[0])], steps[1:], kind, [*path, steps[0]])


def _kind(value: object) -> str:
    """msgspec's name for the type of a value."""
    names = {dict: "object", list: "array", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _path(steps: list[str]) -> str:
    """`spec.containers[0].image`"""
    path = ""
    for step in steps:
        path += f"[{step}]" if step.isdecimal() else f".{step}" if step != "..." else ""
    return path.removeprefix(".")
