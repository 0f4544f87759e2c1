"""Faults that a program can inject into the running server.

A program may set the fields at any time and from any thread. The handler reads them for every request. Random choices
come from a seed. For restarts, see `EmbeddedServer.restart`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, fields

WRITES = ("POST", "PUT", "PATCH", "DELETE")

Chosen = Callable[[str, str], bool]
"""Whether a fault applies to a request, given its method and path."""


def all_writes(method: str, path: str) -> bool:
    return method in WRITES


def nothing(method: str, path: str) -> bool:
    return False


def all_binds(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/binding")


def nobody(method: str, path: str) -> None: ...


@dataclass(slots=True)
class Faults:
    """The faults of one server. By default it has none."""

    lag: float = 0.0
    """Delay of every response in seconds."""
    watch_lag: float = 0.0
    """Delay of every chunk of a watch in seconds."""
    stall_watches: bool = False
    """Watches stay open but send nothing, not even bookmarks."""
    holds: Chosen = nothing
    """Requests that are neither executed nor answered as long as this applies to them."""
    refuse: bool = False
    """Every connection is cut at its next request, without a response."""
    fail_share: float = 0.0
    """Share of requests that fail without being executed."""
    fail_codes: tuple[int, ...] = (429, 500)
    fails: Chosen = all_writes
    drop_share: float = 0.0
    """Share of requests that are executed but get no response, because the connection is cut."""
    drop_next: int = 0
    """How many of the next requests are executed but get no response."""
    drops: Chosen = all_writes
    cut_watches_every: float = 0.0
    """Interval in seconds at which all watches are cut; 0 for never."""
    before: Callable[[str, str], None] = nobody
    """Called with the method and path of each request before it is executed, in the server's thread: other clients may
    be faster."""
    seed: int = 0
    _dice: random.Random | None = field(default=None, repr=False)

    def clear(self) -> None:
        for fault in fields(self):
            if fault.name not in ("seed", "_dice"):
                setattr(self, fault.name, fault.default)

    def failure(self, method: str, path: str) -> int:
        """The code with which a request fails; 0 if the request is executed."""
        if self.fail_share and self.fails(method, path) and self._draw() < self.fail_share:
            return self.fail_codes[int(self._draw() * len(self.fail_codes))]
        return 0

    def dropped(self, method: str, path: str) -> bool:
        """Whether an executed request gets no response."""
        if self.drop_next > 0 and self.drops(method, path):
            self.drop_next -= 1
            return True
        return bool(self.drop_share) and self.drops(method, path) and self._draw() < self.drop_share

    def _draw(self) -> float:
        if self._dice is None:
            self._dice = random.Random(self.seed)
        return self._dice.random()
