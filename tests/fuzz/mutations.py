"""Mutations of JSON trees and of bytes, as hypothesis strategies: they shrink to few and small changes."""

from __future__ import annotations

import copy
import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

LONG = "9" * 5000


class Raw(NamedTuple):
    """A piece of JSON text that no encoder writes."""

    text: bytes


TEXTS = (
    *(
        "",
        " ",
        "maar",
        "default",
        "evil",
        "g",
        "t",
        "x",
        "root",
        "/",
        "a/b",
        "-",
        "*",
        "(",
        "[",
        "a" * 300,
        "a" * 20_000,
    ),
    *("9" * 65, LONG, f"-{LONG}", f"0.{LONG}", f"1e{LONG}", f"{LONG}s", f"{LONG}%", "1e999", "1e-999", "1E9999", "1Ei"),
    *("0", "-1", "1", "1.5", "100m", "2Gi", "NaN", "nan", "inf", "-inf", "Infinity", "1_000", "٣", "½", "0x10", "+1"),
    *("2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616"),
    *("50%", "-50%", "999999999%", "1h30m", "0s", "-5m", "999999999999h", "1e9s", ".s", "true", "false", "yes", "True"),
    *(
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-14:00",
        "2026-02-30T00:00:00Z",
        "1970-01-01",
    ),
    *("\0", "a\0b", "\x1b[31m", "\n", "a\nb", "\u202e", "\ufeff", "💥", "é", "\u2028", "DROP TABLE"),
    *("[]", "{}", "null", '{"last_resize": 1e400}', '{"attained": "x"}', '{"size": 99999999999}', "[" * 2000, '{"a":'),
    *("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "NoSchedule", "Always", "Never", "hard", "soft", "Worker"),
    *("Pending", "Running", "Succeeded", "Failed", "Inqueue", "Unknown", "Completed", "Bound", "Open", "Closed"),
    *("DoNotSchedule", "ReadWriteOncePod", "WaitForFirstConsumer", "kubernetes.io/hostname", "metadata.name"),
    *("n1=1", "n1=-1", "n1=99999999999", "n1", "n1=x,n2=", "root/a//b", "1/0/-1", "root/" * 500, "/".join("9" * 500)),
)
NUMBERS = (0, 1, -1, 2, 7, 1.5, -0.0, 1e18, 1e308, 5e-324, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53, 2**60)
MORE_NUMBERS = (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 2**200)
RAWS = (
    *(Raw(b"NaN"), Raw(b"1e400"), Raw(b"-1e400"), Raw(LONG.encode()), Raw(b"-0"), Raw(b"1.0"), Raw(b"01"), Raw(b"")),
    *(Raw(b'"\\ud800"'), Raw(b'"\\udfff\\ud800"'), Raw(b'"\xff"'), Raw(b'"\x00"'), Raw(b'"\\u0000"'), Raw(b'"\n"')),
    *(Raw(b"[" * 3000 + b"]" * 3000), Raw(b'{"a":' * 3000 + b"1" + b"}" * 3000), Raw(b'{"a":1,"a":2}'), Raw(b"'a'")),
)
TREES: tuple[Any, ...] = (
    [],
    {},
    [None],
    [[]],
    {"": ""},
    [1, "a", None, {}],
    {"a": {"b": []}},
    ["a"] * 300,
    {"cpu": "1"},
    {"name": "x"},
)
NASTY: tuple[Any, ...] = (None, True, False, *TEXTS, *NUMBERS, *MORE_NUMBERS, *RAWS, *TREES)

PIECES = (b"\0", b"\xff", b"\xed\xa0\x80", b"{", b"]", b'"', b"9" * 5000)
"""What replaces some bytes."""

Path = tuple[str | int, ...]


def paths(tree: Any, at: Path = ()) -> list[Path]:
    """The paths of everything in a tree, but the tree itself."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path for key, value in inner for path in ((*at, key), *paths(value, (*at, key)))]


def _changed(draw: st.DrawFn, value: Any) -> Any:
    match draw(st.integers(0, 9)):
        case 0:
            return [value]
        case 1:
            return {"a": value}
        case 2:
            return str(value) if not isinstance(value, Raw) else value
        case 3 if isinstance(value, list):
            return [*value, *value, *value]
        case 3 if isinstance(value, str):
            return value * 40
        case 3 if isinstance(value, int) and not isinstance(value, bool):
            return -value
    return copy.deepcopy(draw(st.sampled_from(NASTY)))


def _mutate(draw: st.DrawFn, tree: Any) -> None:
    found = paths(tree)
    if not found:
        return
    *way, last = draw(st.sampled_from(found))
    place = tree
    for step in way:
        place = place[step]
    match draw(st.integers(0, 5)):
        case 0:
            del place[last]
        case 1 if isinstance(place, dict):
            key = draw(st.sampled_from(("", "a", "name", "a/b", "\0", "x" * 300, "💥")))
            place[key] = place.pop(last)
        case _:
            place[last] = _changed(draw, place[last])


def dumps(value: Any) -> bytes:
    """JSON, with raw pieces as they are."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return b"{" + b",".join(json.dumps(str(k)).encode() + b":" + dumps(v) for k, v in value.items()) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(map(dumps, value)) + b"]"
    return json.dumps(value).encode()


@st.composite
def mutated_trees(draw: st.DrawFn, tree: Any) -> bytes:
    """A JSON document with up to four mutations, and sometimes with a key that is there twice."""
    copied = json.loads(json.dumps(tree))
    for _ in range(draw(st.integers(1, 4))):
        _mutate(draw, copied)
    text = dumps(copied)
    if isinstance(tree, dict) and draw(st.integers(0, 20)) == 20:
        key = draw(st.sampled_from(sorted(tree)))
        text = b"{" + json.dumps(key).encode() + b":" + dumps(draw(st.sampled_from(NASTY))) + b"," + text[1:]
    return text


@st.composite
def mutated_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes that are cut, or with a few of them replaced, removed or doubled."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(found) - 1, 0)))
        length = draw(st.integers(0, 20))
        match draw(st.integers(0, 4)):
            case 0:
                del found[at:]
            case 1:
                del found[at : at + length]
            case 2:
                found[at:at] = draw(st.binary(max_size=8))
            case 3:
                found[at:at] = found[at : at + length]
            case _:
                found[at : at + length] = draw(
                    st.sampled_from((b"\0", b"\xff", b"\xed\xa0\x80", b"{", b"]", b'"', b"9" * 5000))
                )
    return bytes(found)
