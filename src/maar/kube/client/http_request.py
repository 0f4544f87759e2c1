"""The bytes of a request: a line, what all requests of one identity carry, and the body.

For `maar.kube.client.transport`. What changes seldom (the host, who we are) is put together once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

import maar
from maar.kube.client.errors import AccessError

JSON = "application/json"
READS = ("GET", "HEAD")
"""What changes nothing on the server."""
_STRANGE = re.compile(r"[^!-~]")
"""What a line of a head cannot carry as it is: spaces, controls and all beyond ASCII."""
_SAFE = "/?&=%:@!$'()*+,;~"


class Head:
    """What requests to one server by one identity have in common."""

    def __init__(self, server: str, authorization: str) -> None:
        self.server = server
        self.authorization = authorization
        url = urlsplit(server)
        self._prefix = _plain(url.path)
        lines = {
            "Host": url.netloc.rpartition("@")[2],
            "Accept": JSON,
            # Compressed answers would cost the API server more than they save on the way to it.
            "Accept-Encoding": "identity",
            "User-Agent": f"maar/{maar.__version__}",
        }
        if authorization:
            if _STRANGE.search(authorization.replace(" ", "")):
                raise AccessError("the token has characters that no token may have")
            lines["Authorization"] = authorization
        self._common = "".join(f"{name}: {value}\r\n" for name, value in lines.items())

    def request(
        self, verb: str, path: str, params: Mapping[str, str] | None, data: bytes | None, content_type: str
    ) -> bytes:
        """A whole request."""
        query = f"?{urlencode(params, quote_via=quote)}" if params else ""
        line = f"{verb} {self._prefix}{_plain(path)}{query} HTTP/1.1\r\n{self._common}"
        if data is None:
            return (line + ("\r\n" if verb in READS else "Content-Length: 0\r\n\r\n")).encode()
        return f"{line}Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def _plain(path: str) -> str:
    """A path as a line can carry it; what is quoted already stays so."""
    return quote(path, safe=_SAFE) if _STRANGE.search(path) else path
