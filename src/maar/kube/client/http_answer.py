"""One answer in HTTP/1.1, read as its bytes come in: what `maar.kube.client.http_connection` makes of them.

By hand, since what libraries parse is only half of an answer: around their parsers stand streams, header maps and
messages, and those are what costs. An API server's short answers are plain: a head, then a body of a stated length, in
chunks, or until the connection ends. Only what Maar needs of the head is looked at. Whatever else comes is `Garbled`,
and its connection is not used again.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import NamedTuple

LONGEST_HEAD = 64 * 1024
"""API servers write some 500 bytes; by taste."""
LONGEST_LINE = 4 * 1024
"""Of a chunk's size or a trailer; by taste."""

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [^\r\n]*)?(?:\r\n|\Z)")
_HEADER = re.compile(rb"\r\n(content-length|transfer-encoding|connection|retry-after):[ \t]*([^\r\n]*)", re.IGNORECASE)
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")


class Garbled(ConnectionError):
    """What came is no answer, or not all of one."""


class Answer(NamedTuple):
    """A whole one."""

    status: int
    body: bytes
    retry_after: float
    """Seconds; 0 where the server does not say, or says a date, which API servers do not."""
    last: bool
    """The connection cannot be used again."""


Reading = Generator[None, bytes, Answer]


def reading(bodiless: bool = False) -> Reading:
    """Send it the bytes as they come, and `b""` when the connection ends; it returns the answer once that is whole.

    `bodiless`: to a HEAD, whose answer has no body whatever its head says.
    """
    came = _Came()
    status = 100
    while status < 200:  # 100 Continue, 103 Early Hints: the answer is still to come
        while (head := came.until(b"\r\n\r\n", LONGEST_HEAD)) is None:
            came.begins_like(b"HTTP/1.")
            came.add((yield))
        last, status, headers = _head(head)
    coding, length = headers.get(b"transfer-encoding"), headers.get(b"content-length")
    if bodiless or status in (204, 304):
        body = b""
    elif coding is not None:
        if coding.lower() != b"chunked":
            raise Garbled(f"a transfer coding that nobody asked for: {_shown(coding)}")
        # Who states a length too may mean either; after such an answer nobody can say where the next one begins.
        last = last or length is not None
        body = yield from _chunks(came)
    elif length is not None:
        body = yield from _sized(came, _number(length))
    else:
        last = True
        body = yield from _rest(came)
    after = headers.get(b"retry-after", b"")
    return Answer(status, body, float(after) if after.isdigit() else 0.0, last or came.more)


class _Came:
    """The bytes that came and are not read yet: `data` from `at` on."""

    __slots__ = ("at", "data")

    def __init__(self) -> None:
        self.data = b""
        self.at = 0

    @property
    def more(self) -> bool:
        """Whether there are any."""
        return self.at < len(self.data)

    def add(self, data: bytes) -> None:
        """More of them, where the answer is not at its end."""
        if not data:
            raise Garbled("the server hung up in the middle of an answer")
        self.data, self.at = self.data[self.at :] + data, 0

    def begins_like(self, start: bytes) -> None:
        """What does not begin like an answer is not waited for."""
        some = self.data[self.at : self.at + len(start)]
        if not start.startswith(some):
            raise Garbled(f"not HTTP/1: {_shown(self.data[self.at :])}")

    def until(self, end: bytes, longest: int) -> bytes | None:
        """What comes before `end`, both of which count as read; `None`: it has not all come."""
        found = self.data.find(end, self.at, self.at + longest + len(end))
        if found < 0:
            if len(self.data) - self.at >= longest + len(end):
                raise Garbled(f"no end of this after {longest} bytes: {_shown(self.data[self.at :])}")
            return None
        before, self.at = self.data[self.at : found], found + len(end)
        return before

    def up_to(self, size: int) -> bytes:
        """So many bytes, or those that there are."""
        some = self.data[self.at : self.at + size]
        self.at += len(some)
        return some


def _head(head: bytes) -> tuple[bool, int, dict[bytes, bytes]]:
    """Whether the connection ends with this answer, its status, and those headers that matter."""
    begin = _STATUS.match(head)
    if begin is None or begin[2] == b"101":
        raise Garbled(f"not a status that was asked for: {_shown(head)}")
    headers: dict[bytes, bytes] = {}
    for name, value in _HEADER.findall(head):
        name, value = name.lower(), value.rstrip(b" \t")
        headers[name] = headers[name] + b"," + value if name in headers else value
    last = begin[1] == b"0" or b"close" in headers.get(b"connection", b"").lower()
    return last, int(begin[2]), headers


def _number(length: bytes) -> int:
    """A Content-Length, which may be said twice if it is the same."""
    one, *others = {length} if length.isdigit() else {part.strip(b" \t") for part in length.split(b",")}
    if others or not one.isdigit() or len(one) > 15:
        raise Garbled(f"not a length: {_shown(length)}")
    return int(one)


def _sized(came: _Came, size: int) -> Generator[None, bytes, bytes]:
    parts = [came.up_to(size)]
    missing = size - len(parts[0])
    while missing:
        came.add((yield))
        parts.append(came.up_to(missing))
        missing -= len(parts[-1])
    return b"".join(parts)


def _chunks(came: _Came) -> Generator[None, bytes, bytes]:
    """A body in chunks, up to and with its trailers, which say nothing to us."""
    parts: list[bytes] = []
    while True:
        while (line := came.until(b"\r\n", LONGEST_LINE)) is None:
            came.add((yield))
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise Garbled(f"not the size of a chunk: {_shown(line)}")
        missing = int(found[1], 16)
        if not missing:
            break
        while missing:
            if not came.more:
                came.add((yield))
            parts.append(came.up_to(missing))
            missing -= len(parts[-1])
        while came.until(b"\r\n", 0) is None:
            came.add((yield))
    while line != b"":
        while (line := came.until(b"\r\n", LONGEST_LINE)) is None:
            came.add((yield))
    return b"".join(parts)


def _rest(came: _Came) -> Generator[None, bytes, bytes]:
    """All that comes until the connection ends."""
    parts = [came.up_to(len(came.data))]
    while more := (yield):
        parts.append(more)
    return b"".join(parts)


def _shown(text: bytes) -> str:
    return f"`{text[:60].decode('ascii', 'backslashreplace')}`"
