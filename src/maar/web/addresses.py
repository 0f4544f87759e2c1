"""Addresses to listen on: parsed from options, and opened as sockets by the scheduler's process.

The scheduler's process opens them, so that an error ends the command, and keeps them, so that clients wait instead of
failing while the HTTP process starts again.
"""

from __future__ import annotations

import contextlib
import socket

import msgspec

PORTS = range(65536)
BACKLOG = 512


class CannotServe(Exception):
    """Why the HTTP server cannot start."""


class Address(msgspec.Struct, frozen=True):
    """A host, empty for all interfaces, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if host else f"port {self.port}"


def read_address(text: str) -> Address:
    """An address from `HOST:PORT`, `[IPV6]:PORT` or `:PORT`; raises `ValueError` with the reason."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) in PORTS):
        raise ValueError(f"expected HOST:PORT with a port from 0 to 65535, got `{text}`")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"an IPv6 address needs brackets, as in `[::1]:8080`; got `{text}`")
    return Address(host, int(port))


def listening(address: Address) -> socket.socket:
    """A listening socket; without a host it accepts IPv4 and IPv6. Raises `CannotServe`."""
    if address.port not in PORTS:
        raise CannotServe(f"port {address.port}: not from 0 to 65535")
    try:
        if not address.host:
            if socket.has_dualstack_ipv6():
                with contextlib.suppress(OSError):  # IPv6 may be switched off.
                    return _listening(socket.AF_INET6, ("::", address.port), dual=True)
            return _listening(socket.AF_INET, ("0.0.0.0", address.port))  # noqa: S104 compared, not bound
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        return _listening(family, where)
    except OSError as error:
        raise CannotServe(f"{address}: {error.strerror}") from None


def _listening(family: int, where: object, dual: bool = False) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not dual))
        opened.bind(where)  # type: ignore[arg-type]
        opened.listen(BACKLOG)
        opened.setblocking(False)
    except BaseException:
        opened.close()
        raise
    return opened
