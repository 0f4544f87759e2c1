"""Reads what can be read of an object that does not decode: the object without its invalid fields.

Used only after `decoding` has failed. An object that cannot be read in full is invalid, but its name, its node, its
scheduler and its gang still matter: its owner must learn the reason, and a pod that runs takes room.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, TypeVar

import msgspec

from maar.kube.wire.decoding import decode, invalid_field, without_nulls
from maar.kube.wire.errors import FieldError

T = TypeVar("T")

MOST = 20
"""Invalid fields that are removed one after the other; tuned by hand. Each costs a pass over the document."""
LONGEST_NUMBER = 300
"""Digits of a number; a longer one is kept as text, because Python refuses to convert more than 4,300."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


class Salvaged(NamedTuple):
    """The rest of an object, and its first invalid field."""

    item: Any
    """`None` if nothing can be read without that field."""
    error: FieldError


def lenient(text: bytes) -> object:
    """A JSON document that the fast decoder refuses: invalid UTF-8 is replaced, and long numbers are text.

    Raises `ValueError` if it is not JSON at all.
    """
    plain = _SURROGATE.sub("\\\\ufffd", text.decode("utf-8", "replace"))
    found: object = json.loads(plain, parse_int=_number, parse_float=_fraction, parse_constant=str)
    return found


def _number(digits: str) -> int | str:
    return int(digits) if len(digits) < LONGEST_NUMBER else digits


def _fraction(digits: str) -> float | str:
    number = float(digits) if len(digits) < LONGEST_NUMBER else float("inf")
    return digits if number in (float("inf"), float("-inf")) else number


def salvage(document: object, struct: type[T]) -> T | Salvaged:
    """The struct; if the document does not decode, what is left of it without its invalid fields."""
    try:
        return decode(document, struct)
    except FieldError as error:
        first = error
    rest = without_nulls(document)
    for _ in range(MOST):
        try:
            return Salvaged(msgspec.convert(rest, struct), first)
        except msgspec.ValidationError as error:
            if not _remove(rest, invalid_field(str(error), rest)):
                break
        except RecursionError:
            break
    return Salvaged(None, first)


def _remove(document: object, steps: list[str]) -> bool:
    """Remove a field, or the innermost existing part of a document that should have it."""
    place: Any = document
    found: list[tuple[Any, str | int]] = []
    for step in steps:
        key: str | int = int(step) if isinstance(place, list) and step.isdecimal() else step
        try:
            inner = place[key]
        except (LookupError, TypeError):
            break
        found.append((place, key))
        place = inner
    if not found:
        return False
    holder, last = found[-1]
    del holder[last]
    return True
