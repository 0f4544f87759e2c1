"""Requests and responses of the HTTP process, as plain data and as bytes.

What two servers could read differently in the head of a request is refused.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import httptools
import msgspec

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
METRICS = "text/plain; version=0.0.4; charset=utf-8"

LONGEST_TARGET = 4096
"""Bytes of the path with its query."""
ONCE = ("content-length", "host", "authorization", "transfer-encoding")
"""Headers that may be there only once."""


class FrontAnswer(msgspec.Struct, frozen=True):
    """A response."""

    status: int
    body: bytes = b""
    kind: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


class RequestRefused(Exception):
    """A request is answered with an error status and a reason."""

    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        self.answer = FrontAnswer(status, json.dumps({"error": why}).encode(), JSON, named)


class RequestHead(msgspec.Struct, frozen=True):
    """The head of a request."""

    method: str
    path: str
    """Still quoted, without the query."""
    headers: dict[str, str]
    """Headers by lower-case name."""
    length: int
    """Bytes of the body."""
    keep: bool
    """Whether the client wants to send another request."""


class RequestReader:
    """Reads the head of one request, as its bytes arrive. llhttp (httptools) does it, strictly."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: dict[str, str] = {}
        self._complete = False
        self._keep = False

    def feed(self, data: bytes) -> None:
        """Take more bytes of the head, and none after it; raises `RequestRefused`."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the connection stays what it is, and ends with the response
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, RequestRefused):
                raise error.__context__ from None
            raise
        except httptools.HttpParserError:
            raise RequestRefused(400, "not a request of HTTP/1.1") from None

    def head(self) -> RequestHead:
        """The head, after all of its bytes; raises `RequestRefused`."""
        if not self._complete or self._parser.get_http_version() not in ("1.0", "1.1"):
            raise RequestRefused(400, "not a request of HTTP/1.1")
        if len(self._target) > LONGEST_TARGET:
            raise RequestRefused(414, f"the target has more than {LONGEST_TARGET} bytes")
        path = self._target.decode("latin-1").partition("?")[0].partition("#")[0]
        return RequestHead(self._parser.get_method().decode(), path, self._headers, _length(self._headers), self._keep)

    # Called by the parser.

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        at, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        if at in self._headers and at in ONCE:
            raise RequestRefused(400, f"repeated header: `{at}`")
        self._headers[at] = f"{self._headers[at]}, {text}" if at in self._headers else text

    def on_headers_complete(self) -> None:
        self._complete = True
        # Only now: the parser forgets it when a request without a body is complete.
        self._keep = self._parser.should_keep_alive() and not self._parser.should_upgrade()


def _length(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise RequestRefused(411, "send a Content-Length: chunks are not supported")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestRefused(415, "send the body without a Content-Encoding")
    return int(headers.get("content-length", "0"))  # the parser has seen that it is a number


def head_of(answer: FrontAnswer, keep: bool) -> bytes:
    """The bytes of a response before its body."""
    lines = [
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Content-Type: {answer.kind}",
        f"Content-Length: {len(answer.body)}",
        *(f"{name}: {value}" for name, value in answer.headers),
        f"Connection: {'keep-alive' if keep else 'close'}",
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def document(status: int, **fields: Any) -> FrontAnswer:
    """A response in JSON."""
    return FrontAnswer(status, msgspec.json.encode(fields), JSON)


def later(why: str, seconds: int = 30, status: int = 503) -> RequestRefused:
    """A refusal that asks the client to retry."""
    return RequestRefused(status, why, Retry_After=str(seconds))
