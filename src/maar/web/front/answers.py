"""Requests and responses of the HTTP process, as plain data and as bytes.

The head of a request is parsed here, strictly: what two parsers could read differently is refused.
"""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Any

import msgspec

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
METRICS = "text/plain; version=0.0.4; charset=utf-8"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_LINE = re.compile(r"([A-Z]{1,16}) ([\x21-\x7e]{1,4096}) HTTP/1\.([01])")


class Answer(msgspec.Struct, frozen=True):
    """A response."""

    status: int
    body: bytes = b""
    kind: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


class Refused(Exception):
    """A request is answered with an error status and a reason."""

    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        self.answer = Answer(status, json.dumps({"error": why}).encode(), JSON, named)


class Head(msgspec.Struct, frozen=True):
    """The head of a request."""

    method: str
    path: str
    """Still quoted, without the query."""
    headers: dict[str, str]
    """By lower-case name."""
    length: int
    """Bytes of the body."""
    keep: bool
    """Whether the client wants to send another request."""


def parse(head: bytes) -> Head:
    """The head of a request, without the empty line at its end; raises `Refused`."""
    first, *lines = head.decode("latin-1").split("\r\n")
    found = _LINE.fullmatch(first)
    if found is None:
        raise Refused(400, "not a request of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        if not colon or not _TOKEN.fullmatch(name) or "\n" in value or "\r" in value or "\0" in value:
            raise Refused(400, "invalid header")
        if name in headers and name in ("content-length", "host", "authorization", "transfer-encoding"):
            raise Refused(400, f"repeated header: `{name}`")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    method, target, minor = found.groups()
    options = {part.strip().lower() for part in headers.get("connection", "").split(",")}
    keep = "close" not in options and (minor == "1" or "keep-alive" in options)
    return Head(method, target.partition("?")[0].partition("#")[0], headers, _length(headers), keep)


def _length(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise Refused(411, "send a Content-Length: chunks are not supported")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "send the body without a Content-Encoding")
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise Refused(400, "invalid Content-Length")
    return int(text)


def head_of(answer: Answer, keep: bool) -> bytes:
    """The bytes of a response before its body."""
    lines = [
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Content-Type: {answer.kind}",
        f"Content-Length: {len(answer.body)}",
        *(f"{name}: {value}" for name, value in answer.headers),
        f"Connection: {'keep-alive' if keep else 'close'}",
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def document(status: int, **fields: Any) -> Answer:
    """A response in JSON."""
    return Answer(status, msgspec.json.encode(fields), JSON)


def later(why: str, seconds: int = 30, status: int = 503) -> Refused:
    """A refusal that asks the client to retry."""
    return Refused(status, why, Retry_After=str(seconds))
