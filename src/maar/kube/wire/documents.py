"""Text to documents: YAML with many documents, JSON, JSON one after the other.

YAML is read as kubectl reads it: times and base-60 numbers stay text, since no field of an object is either. Where a
file begins like JSON it is read as JSON, which is some thirty times faster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from maar.kube.wire.errors import ManifestError


class _Loader(yaml.CSafeLoader):
    """libyaml's loader with the scalars of YAML 1.2, but for `yes` and `no`, which kubectl takes as booleans too."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


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


def documents(text: bytes, source: str) -> Iterator[Any]:
    """All documents of a file, empty ones as `None`."""
    if text.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        found = _json(text)
        if found is not None:
            yield from found
            return
    yield from _yaml(text, source)


def _json(text: bytes) -> list[Any] | None:
    """JSON documents; `None` where it is not JSON after all (YAML may begin with a brace too)."""
    try:
        return [msgspec.json.decode(text)]
    except msgspec.DecodeError:
        pass
    try:
        decoded = text.decode("utf-8-sig")
        decoder, found, at = json.JSONDecoder(), [], 0
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


def _yaml(text: bytes, source: str) -> Iterator[Any]:
    try:
        yield from yaml.load_all(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark is not None else ""
        raise ManifestError(f"{source}: {line}not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        what = " ".join(str(error).split())
        raise ManifestError(f"{source}: not YAML: {what}") from None
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{source}: not YAML: {error}") from None
