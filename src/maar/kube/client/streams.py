"""Bytes of lists and watches to thin structs: what `maar.kube.client.api` reads and informers deliver.

The fast way decodes a page, or a line of a watch, straight into structs. Where that fails, the objects are decoded one
by one, and one that does not decode becomes a `Broken`: it never stops the others. API servers take documents that are
nested far deeper than a decoder goes; what lies deeper than anything that is read here is left out of those.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from maar.kube.client.errors import ServerFault, refusal
from maar.kube.wire.base import Object
from maar.kube.wire.decoding import decode_json
from maar.kube.wire.errors import FieldError
from maar.kube.wire.resources import Resource

T = TypeVar("T", bound=Object)
S = TypeVar("S")

LONGEST_LINE = 64 * 1024 * 1024
"""Far above what etcd stores for one object (1.5 MiB by default): beyond it the other side is no API server."""
DEEPEST = 100
"""Levels that are read of what is nested too deeply: several times those of a pod template in a job in a list."""
_STEPS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{\]}]', re.DOTALL)


class Broken(msgspec.Struct, frozen=True):
    """An object that is there and does not decode; empty texts where not even its metadata can be read."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    error: str
    scheduler: str = ""
    """Whose it is, where it is a pod."""

    @property
    def key(self) -> str:
        """`namespace/name`, as of an object."""
        return f"{self.namespace or 'default'}/{self.name}"


class Listed(NamedTuple, Generic[T]):
    """All objects of a kind at one moment."""

    items: list[T | Broken]
    resource_version: str


class WatchEvent(NamedTuple, Generic[T]):
    """One line of a watch: ADDED, MODIFIED and DELETED with an object, or BOOKMARK with none."""

    type: str
    object: T | Broken | None
    resource_version: str
    """From here a watch goes on; empty where the line was not even JSON."""


class Page(NamedTuple, Generic[T]):
    """A part of a list."""

    items: list[T | Broken]
    resource_version: str
    following: str
    """The `continue` token of the next page; empty: this is the last."""


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


def page(body: bytes, resource: Resource[T]) -> Page[T]:
    """One page of a list."""
    try:
        return _page(body, resource)
    except RecursionError:
        return _page(shallow(body), resource)


def _page(body: bytes, resource: Resource[T]) -> Page[T]:
    try:
        fast = _list_decoder(resource.struct).decode(body)
        return Page(fast.items or [], fast.metadata.resource_version, fast.metadata.following)
    except msgspec.ValidationError:
        pass
    except msgspec.DecodeError as error:
        raise ServerFault(f"a list of {resource} is not JSON: {error}") from None
    try:
        slow = _RAW_LIST.decode(body)
    except msgspec.DecodeError as error:
        raise ServerFault(f"a list of {resource} is none: {error}") from None
    items = [_one(bytes(raw), resource) for raw in slow.items or ()]
    return Page(items, slow.metadata.resource_version, slow.metadata.following)


def event(line: bytes, resource: Resource[T]) -> WatchEvent[T]:
    """One line of a watch. An ERROR is raised as the `ApiError` it stands for."""
    try:
        return _event(line, resource)
    except RecursionError:
        return _event(shallow(line), resource)


def _event(line: bytes, resource: Resource[T]) -> WatchEvent[T]:
    try:
        fast = _line_decoder(resource.struct).decode(line)
    except msgspec.DecodeError:
        return _slow_event(line, resource)
    if fast.type == "ERROR":
        return _slow_event(line, resource)
    version = fast.object.metadata.resource_version
    return WatchEvent(fast.type, None if fast.type == "BOOKMARK" else fast.object, version)


def _slow_event(line: bytes, resource: Resource[T]) -> WatchEvent[T]:
    try:
        raw = _RAW_LINE.decode(line)
    except msgspec.DecodeError as error:
        return WatchEvent("", Broken(resource.kind, "", "", "", "", f"a line of a watch is none: {error}"), "")
    body = bytes(raw.object)
    if raw.type == "ERROR":
        raise refusal(_code(body), body, "WATCH", resource.path())
    if raw.type == "BOOKMARK":
        return WatchEvent("BOOKMARK", None, _identity(body, resource, "").resource_version)
    item = _one(body, resource)
    version = item.resource_version if isinstance(item, Broken) else item.metadata.resource_version
    return WatchEvent(raw.type, item, version)


def _one(body: bytes, resource: Resource[T]) -> T | Broken:
    try:
        return decode_json(body, resource.struct)
    except FieldError as error:
        return _identity(body, resource, str(error))
    except (msgspec.DecodeError, RecursionError) as error:
        return Broken(resource.kind, "", "", "", "", str(error))


def _identity(body: bytes, resource: Resource[T], error: str) -> Broken:
    """Whatever of an object's name can still be read."""
    document = msgspec.json.decode(body)
    found = document.get("metadata") if isinstance(document, dict) else None
    metadata = found if isinstance(found, dict) else {}
    namespace, name, uid, version = (
        value if isinstance(value := metadata.get(field), str) else ""
        for field in ("namespace", "name", "uid", "resourceVersion")
    )
    spec = document.get("spec") if isinstance(document, dict) else None
    scheduler = spec.get("schedulerName") if isinstance(spec, dict) else None
    whose = scheduler if isinstance(scheduler, str) else ""
    return Broken(resource.kind, namespace, name, uid, version, error, whose)


def _code(body: bytes) -> int:
    """The HTTP status in a Status object; without one the server has failed."""
    document = msgspec.json.decode(body)
    code = document.get("code") if isinstance(document, dict) else None
    return code if isinstance(code, int) and code >= 400 else 500


def shallow(document: bytes) -> bytes:
    """A document without what is nested too deeply, in the place of which stands null."""
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
    """The whole lines that each chunk completes, however long."""
    tail: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        tail.append(first)
        size += len(first)
        if size > LONGEST_LINE:
            raise ServerFault(f"a line of more than {LONGEST_LINE} bytes")
        if others:
            whole = [b"".join(tail), *others[:-1]]
            tail, size = [others[-1]], len(others[-1])
            yield list(_filled(whole))


def _filled(whole: list[bytes]) -> Iterator[bytes]:
    return (line for line in whole if line.strip())
