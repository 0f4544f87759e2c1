"""Opens very many connections to a port and holds them until its input ends. Run as a process with its own limits.

    python -P flood.py PORT COUNT

Every second connection sends half of a request and no more; the others send nothing. It prints how many connections
were open at once, as far as the limit of open files allows. A connection that the server closes is opened again.
"""

from __future__ import annotations

import contextlib
import resource
import selectors
import socket
import sys

SPARE = 50
"""Files that the process itself needs."""
AT_ONCE = 100
"""Connections opened between two looks at the input."""


def main() -> None:
    port, wanted = int(sys.argv[1]), int(sys.argv[2])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wanted = min(wanted, hard - SPARE) if hard != resource.RLIM_INFINITY else wanted
    look = selectors.DefaultSelector()
    look.register(sys.stdin, selectors.EVENT_READ)
    opened, at_most, told = 0, 0, False
    while True:
        for _ in range(min(AT_ONCE, wanted - len(look.get_map()) + 1)):
            with contextlib.suppress(OSError):
                look.register(_connect(port, opened), selectors.EVENT_READ)
            opened += 1
        at_most = max(at_most, len(look.get_map()) - 1)
        if not told and (opened >= wanted):
            print(at_most, flush=True)
            told = True
        for key, _ in look.select(0.01):
            if key.fileobj is sys.stdin:
                return
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            with contextlib.suppress(OSError):
                if connection.recv(65_536):
                    continue
            look.unregister(connection)
            connection.close()


def _connect(port: int, number: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=5)
    made.setblocking(False)
    if number % 2:
        made.send(b"GET /metrics HTTP/1.1\r\nHost: maar\r\n")
    return made


if __name__ == "__main__":
    main()
