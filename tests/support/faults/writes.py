"""Every write to a cluster, in order, from etcd's own history: one watch on everything that the API server stores.

It does not depend on the API server, which tests kill and delay, nor on any code of Maar. The API server must store
JSON (`STORED_AS_JSON`). etcd gives every write a revision, which is also the resourceVersion of the object.
"""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec

STORED_AS_JSON = "--storage-media-type=application/json"
"""The flag of kube-apiserver. By default it stores its own kinds as protocol buffers."""
ROOT = "/registry/"
MARKS = "/registry/tests/mark"
"""A key that the API server ignores."""
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
        body = {"key": _b64(MARKS), "value": _b64("")}
        async with self._session.post(f"{self._url}/v3/kv/put", json=body) as answer:
            answer.raise_for_status()
            return int((await answer.json(content_type=None))["header"]["revision"])

    async def writes(self) -> AsyncIterator[Write | int]:
        """All objects as if they were written now, and then every write; a number is the revision of a mark."""
        everything = {"key": _b64(ROOT), "range_end": _b64(ROOT[:-1] + chr(ord(ROOT[-1]) + 1))}
        async with self._session.post(f"{self._url}/v3/kv/range", json=everything) as answer:
            answer.raise_for_status()
            state = msgspec.json.decode(await answer.read(), type=_State)
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
