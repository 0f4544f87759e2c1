"""Requests from this host: whether one is, and whether it may have been sent by a page of another site.

A page of another site whose name was made to lead here (DNS rebinding) is of the same origin for its browser, and may
read what needs no token. The browser still sends that name in `Host`. Requests from other hosts may use any name: that
of a Service, of a node, or an address.
"""

from __future__ import annotations

import ipaddress

MISLED = "from this host, use the name `localhost`"
"""Why such a request is refused."""


def is_loopback(host: str) -> bool:
    """Whether an address is this host's own, which no network carries."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def is_misled(host: str, remote: str) -> bool:
    """Whether a request from this host, by its address `remote`, names another one in its header `Host`."""
    name = host[1 : host.index("]")] if host.startswith("[") and "]" in host else host.partition(":")[0]
    return is_loopback(remote) and name.lower() != "localhost" and not is_loopback(name)
