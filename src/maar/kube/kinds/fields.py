"""Fields that an object has and its kind does not: probably misspelt, and without effect.

The API server drops such fields, or warns of them. Offline nobody does, and `minMemebr: 8` would be a gang of one.
Only kinds that state all their fields are checked (`Kind.unread`), and annotations under `maar.dev/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

import msgspec
from msgspec.inspect import ListType, StructType, UnionType, VarTupleType

from maar.kube.kinds.kind import Kind
from maar.kube.wire import annotations as known
from maar.kube.wire.base import Metadata

OBJECT = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
UNREAD = {"deletionGracePeriodSeconds", "finalizers", "generateName", "managedFields", "selfLink"}
METADATA = frozenset(field.encode_name for field in msgspec.structs.fields(Metadata)) | UNREAD
PREFIX = "maar.dev/"
NOTES = frozenset(
    name
    for value in vars(known).values()
    for name in (value if isinstance(value, tuple) else (value,))
    if isinstance(name, str) and name.startswith(PREFIX)
)
"""All annotations of Maar's own."""


def warnings_about(kind: Kind[Any], document: Mapping[str, Any]) -> Iterator[str]:
    """A line for each unknown field of a document, with its path."""
    metadata = document.get("metadata")
    if kind.unread is not None:
        yield from _among(document, OBJECT, "")
        yield from _among(metadata, METADATA, "metadata.")
        yield from _inside(document.get("spec"), _spec(kind), "spec", kind.unread)
    notes = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    ours = [key for key in notes if str(key).startswith(PREFIX)] if isinstance(notes, Mapping) else []
    for key in ours:
        if key not in NOTES:
            yield f"metadata.annotations: unknown annotation `{key}` is ignored{_hint(key, NOTES)}"


@cache
def _spec(kind: Kind[Any]) -> Any:
    """The type of the spec of a kind; `None` if Maar reads none."""
    info = msgspec.inspect.type_info(kind.resource.struct)
    fields = info.fields if isinstance(info, StructType) else ()
    return next((field.type for field in fields if field.encode_name == "spec"), None)


def _inside(value: Any, of: Any, path: str, unread: frozenset[str]) -> Iterator[str]:
    """Unknown fields of a value and of all values in it, as far as structs describe them."""
    if isinstance(of, UnionType):
        of = next((t for t in of.types if isinstance(t, StructType)), None)
    if isinstance(of, (ListType, VarTupleType)) and isinstance(value, list):
        for i, item in enumerate(value):
            yield from _inside(item, of.item_type, f"{path}[{i}]", unread)
    elif isinstance(of, StructType) and isinstance(value, Mapping):
        plain = path.partition(".")[2]
        more = {name.removeprefix(f"{plain}." if plain else "") for name in unread if name.startswith(plain)}
        yield from _among(value, {f.encode_name for f in of.fields} | more, f"{path}.")
        for field in of.fields:
            if field.encode_name in value:
                yield from _inside(value[field.encode_name], field.type, f"{path}.{field.encode_name}", unread)


def _among(value: Any, names: set[str] | frozenset[str], path: str) -> Iterator[str]:
    for key in value if isinstance(value, Mapping) else ():
        if key not in names:
            yield f"{path}{key}: unknown field is ignored{_hint(str(key), names)}"


def _hint(name: str, names: set[str] | frozenset[str]) -> str:
    close = get_close_matches(name, sorted(names), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""
