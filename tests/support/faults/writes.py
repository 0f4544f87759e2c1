"""Every write to a cluster, in order, from etcd's own history: one watch on everything that the API server stores.

It does not depend on the API server, which tests kill and delay, nor on any code of Maar. The API server must store
JSON (`STORED_AS_JSON`). etcd gives every write a revision, which is also the resourceVersion of the object.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec

STORED_AS_JSON = "--storage-media-type=application/json"
"""The flag of kube-apiserver. By default it stores its own kinds as protocol buffers."""
ROOT = "/registry/"
MARKS = "/registry/tests/mark"
"""A key that the API server ignores."""
AT_ONCE = 100
"""Writes in one transaction; etcd allows 128."""
RENAMED = {"minions": "nodes"}
"""Resources that have an older name in etcd."""

Json = dict[str, Any]


class Write(msgspec.Struct, frozen=True):
    """One write. A deletion has no object after it."""

    revision: int
    resource: str
    """The plural, with its group if it is a custom resource: `pods`, `kubeflow.org/pytorchjobs`."""
    key: str
    """Namespace and name, or the name alone."""
    after: Json | None


class _Pair(msgspec.Struct):
    key: str
    mod_revision: str = "0"
    value: str = ""


class _Event(msgspec.Struct):
    kv: _Pair


class _Result(msgspec.Struct):
    events: list[_Event] = []
    canceled: bool = False
    cancel_reason: str = ""


class _Header(msgspec.Struct):
    revision: str


class _State(msgspec.Struct):
    header: _Header
    kvs: list[_Pair] = []


class _Line(msgspec.Struct):
    result: _Result | None = None
    error: Json | None = None


class HistoryEnded(Exception):
    """etcd ended the watch: from here on, writes could be missed."""


class Etcd:
    """The history of one etcd."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Etcd:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), read_bufsize=1 << 24)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def mark(self) -> int:
        """Write a key of our own; returns its revision. Every earlier write has a lower one."""
        return int((await self._ask("put", {"key": _b64(MARKS), "value": _b64("")}))["header"]["revision"])

    async def put_all(self, key: str, objects: Sequence[Json]) -> None:
        """Store many objects below a key at once. The API server takes minutes for what takes a second here."""
        for first in range(0, len(objects), AT_ONCE):
            puts = []
            for thing in objects[first : first + AT_ONCE]:
                now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                metadata = {**thing["metadata"], "uid": str(uuid.uuid4()), "creationTimestamp": now, "generation": 1}
                text = msgspec.json.encode({**thing, "metadata": metadata})
                name = f"{ROOT}{key}/{metadata['name']}"
                puts.append({"requestPut": {"key": _b64(name), "value": b64encode(text).decode()}})
            await self._ask("txn", {"success": puts})

    async def delete_all(self, key: str) -> None:
        """Delete all keys that begin like this."""
        begin = ROOT + key
        await self._ask("deleterange", {"key": _b64(begin), "range_end": _b64(begin[:-1] + chr(ord(begin[-1]) + 1))})

    async def _ask(self, what: str, body: Json) -> Json:
        async with self._session.post(f"{self._url}/v3/kv/{what}", json=body) as answer:
            answer.raise_for_status()
            found: Json = await answer.json(content_type=None)
            return found

    async def writes(self) -> AsyncIterator[Write | int]:
        """All objects as if they were written now, and then every write; a number is the revision of a mark."""
        everything = {"key": _b64(ROOT), "range_end": _b64(ROOT[:-1] + chr(ord(ROOT[-1]) + 1))}
        state = msgspec.convert(await self._ask("range", everything), _State)
        for pair in sorted(state.kvs, key=lambda pair: int(pair.mod_revision)):
            yield _write(_Event(pair))
        wanted = {**everything, "start_revision": str(int(state.header.revision) + 1)}
        decode = msgspec.json.Decoder(_Line).decode
        async with self._session.post(f"{self._url}/v3/watch", json={"create_request": wanted}) as answer:
            answer.raise_for_status()
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    result = decode(line).result
                    if result is None or result.canceled:
                        raise HistoryEnded(line[:500].decode(errors="replace"))
                    for event in result.events:
                        yield _write(event)
        raise HistoryEnded("the connection was closed")


def _write(event: _Event) -> Write | int:
    key = b64decode(event.kv.key).decode()
    revision = int(event.kv.mod_revision)
    if key == MARKS:
        return revision
    group, _, rest = key.removeprefix(ROOT).partition("/")
    if "." in group:  # custom resources are stored below their group
        plural, _, rest = rest.partition("/")
        group = f"{group}/{plural}"
    return Write(revision, RENAMED.get(group, group), rest, _object(event.kv.value))


def _object(value: str) -> Json | None:
    """The stored object; nothing for what is not JSON, such as allocated addresses."""
    data = b64decode(value)
    if not data.startswith(b"{"):
        return None
    with contextlib.suppress(msgspec.DecodeError):
        found = msgspec.json.decode(data)
        return found if isinstance(found, dict) else None
    return None


def _b64(text: str) -> str:
    return b64encode(text.encode()).decode()


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
