"""The files of the page, with the headers that go with them. Whoever serves them adds nothing."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Scripts and styles only from the page's own files, requests only to its own server, and no frame around it."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # ask again each time, with the ETag: an update of Maar shows at once
}


class PageFile(msgspec.Struct, frozen=True):
    """One file."""

    body: bytes
    packed: bytes
    """The same, for clients that accept gzip."""
    headers: dict[str, str]
    """With its type and its ETag."""


@cache
def page_files() -> dict[str, PageFile]:
    """All files by the path of their URL; the page itself is also `/`."""
    found = {}
    for path in sorted(FOLDER.rglob("*")):
        kind = TYPES.get(path.suffix)
        if kind is None or not path.is_file():
            continue
        body = path.read_bytes()
        tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
        headers = {**HEADERS, "Content-Type": kind, "ETag": tag}
        found[f"/{path.relative_to(FOLDER).as_posix()}"] = PageFile(body, gzip.compress(body, mtime=0), headers)
    found["/"] = found["/index.html"]
    return found
