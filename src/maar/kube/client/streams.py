"""Decodes the bytes of lists and watches into thin structs, for `maar.kube.client.api`.

The fast path decodes a page, or a line of a watch, straight into structs. If that fails, each object is decoded alone,
and an invalid object becomes a `Broken`, with what can be read of it, without affecting the others. API servers accept
documents that are nested more deeply than a decoder can read; for these, levels deeper than any field that Maar reads
are dropped.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from maar.kube.client.errors import ServerFault, refusal
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Object
from maar.kube.wire.salvage import Salvaged, lenient, salvage

T = TypeVar("T", bound=Object)
S = TypeVar("S")

LONGEST_LINE = 64 * 1024 * 1024
"""Far above the size of an object in etcd (1.5 MiB by default); a longer line is not from an API server."""
DEEPEST = 100
"""Levels kept of a document that is nested too deeply: several times the depth of a pod template in a list of jobs."""
_STEPS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{\]}]', re.DOTALL)


class Broken(msgspec.Struct, frozen=True):
    """An object that exists but cannot be decoded; fields that cannot be read are empty."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    error: str
    item: Any = None
    """The object without its invalid fields; `None` if nothing can be read without them."""

    @property
    def key(self) -> str:
        """`namespace/name`, as in `Object.key`."""
        return f"{self.namespace or 'default'}/{self.name}"


class Listed(NamedTuple, Generic[T]):
    """Objects of a kind at one version: all of them, or one page."""

    items: list[T | Broken]
    resource_version: str
    following: str = ""
    """The `continue` token of the next page; empty on the last page."""


class WatchEvent(NamedTuple, Generic[T]):
    """One line of a watch: ADDED, MODIFIED or DELETED with an object, or BOOKMARK without one."""

    type: str
    object: T | Broken | None
    resource_version: str
    """The version to continue the watch from; empty if the line is malformed."""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    following: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, Generic[S]):
    items: list[S] | None = None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _Line(msgspec.Struct, Generic[S]):
    type: str
    object: S


@cache
def _list_decoder(struct: Any) -> msgspec.json.Decoder[_List[Any]]:
    return msgspec.json.Decoder(_List[struct])


@cache
def _line_decoder(struct: Any) -> msgspec.json.Decoder[_Line[Any]]:
    return msgspec.json.Decoder(_Line[struct])


_RAW_LIST = msgspec.json.Decoder(_List[Raw])
_RAW_LINE = msgspec.json.Decoder(_Line[Raw])


def page(body: bytes, resource: Resource[T]) -> Listed[T]:
    try:
        return _page(body, resource)
    except RecursionError:
        return _page(shallow(body), resource)


def _page(body: bytes, resource: Resource[T]) -> Listed[T]:
    try:
        fast = _list_decoder(resource.struct).decode(body)
        return Listed(fast.items or [], fast.metadata.resource_version, fast.metadata.following)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        slow = _RAW_LIST.decode(body)
        items = [_one(bytes(raw), resource) for raw in slow.items or ()]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        slow, items = _lenient_page(body, resource, error)
    return Listed(items, slow.metadata.resource_version, slow.metadata.following)


def _lenient_page(body: bytes, resource: Resource[T], error: Exception) -> tuple[_List[Any], list[T | Broken]]:
    """A list of which one item has text that no decoder takes."""
    try:
        whole = msgspec.convert(lenient(body), _List[Any])
    except msgspec.ValidationError as invalid:
        raise ServerFault(f"malformed list response for {resource}: {invalid}") from None
    except ValueError:
        raise ServerFault(f"list response for {resource} is not JSON: {error}") from None
    return whole, [_rest(item, resource) for item in whole.items or ()]


def event(line: bytes, resource: Resource[T]) -> WatchEvent[T]:
    """Decodes one line of a watch; raises an ERROR event as an `ApiError`."""
    try:
        return _event(line, resource)
    except RecursionError:
        return _event(shallow(line), resource)


def _event(line: bytes, resource: Resource[T]) -> WatchEvent[T]:
    try:
        fast = _line_decoder(resource.struct).decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _slow_event(line, resource)
    if fast.type == "ERROR":
        return _slow_event(line, resource)
    version = fast.object.metadata.resource_version
    return WatchEvent(fast.type, None if fast.type == "BOOKMARK" else fast.object, version)


def _slow_event(line: bytes, resource: Resource[T]) -> WatchEvent[T]:
    try:
        raw = _RAW_LINE.decode(line)
        kind, body = raw.type, bytes(raw.object)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            whole = msgspec.convert(lenient(line), _Line[Any])
        except ValueError:
            return WatchEvent("", Broken(resource.kind, "", "", "", "", f"malformed watch event: {error}"), "")
        kind, body = whole.type, msgspec.json.encode(whole.object)
    if kind == "ERROR":
        raise refusal(_code(body), body, "WATCH", resource.path())
    item = _one(body, resource)
    version = item.resource_version if isinstance(item, Broken) else item.metadata.resource_version
    return WatchEvent(kind, None if kind == "BOOKMARK" else item, version)


def _one(body: bytes, resource: Resource[T]) -> T | Broken:
    try:
        return msgspec.json.decode(body, type=resource.struct)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        document = lenient(body)
    except ValueError as error:
        return Broken(resource.kind, "", "", "", "", str(error))
    return _rest(document, resource)


def _rest(document: Any, resource: Resource[T]) -> T | Broken:
    """An object, or what can be read of an invalid one."""
    made = salvage(document, resource.struct)
    if not isinstance(made, Salvaged):
        return made
    found = document.get("metadata") if isinstance(document, dict) else None
    metadata = found if isinstance(found, dict) else {}
    namespace, name, uid, version = (
        value if isinstance(value := metadata.get(field), str) else ""
        for field in ("namespace", "name", "uid", "resourceVersion")
    )
    return Broken(resource.kind, namespace, name, uid, version, str(made.error), made.item)


def _code(body: bytes) -> int:
    """The HTTP status in a Status object; 500 if the object has no code."""
    try:
        document = lenient(body)
    except ValueError:
        return 500
    code = document.get("code") if isinstance(document, dict) else None
    return code if isinstance(code, int) and code >= 400 else 500


def shallow(document: bytes) -> bytes:
    """The JSON document with null in place of everything nested too deeply."""
    kept, begin, depth = [], 0, 0
    for step in _STEPS.finditer(document):
        match step[0]:
            case b"[" | b"{":
                depth += 1
                if depth == DEEPEST + 1:
                    kept.append(document[begin : step.start()])
            case b"]" | b"}":
                depth -= 1
                if depth == DEEPEST:
                    kept.append(b"null")
                    begin = step.end()
    return b"".join([*kept, document[begin:]])


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """The lines that each chunk completes, without empty ones."""
    tail: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        tail.append(first)
        size += len(first)
        if size > LONGEST_LINE:
            raise ServerFault(f"watch event exceeds {LONGEST_LINE} bytes")
        if others:
            whole = [b"".join(tail), *others[:-1]]
            tail, size = [others[-1]], len(others[-1])
            yield list(_filled(whole))


def _filled(whole: list[bytes]) -> Iterator[bytes]:
    return (line for line in whole if line.strip())
