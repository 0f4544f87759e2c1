"""What can go wrong on request: faults that the server shows while it runs.

All are plain fields that may be set at any moment, from any thread; each is asked once for every request. What is
random is drawn from a seed. Restarts are `EmbeddedServer.restart`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, fields

WRITES = ("POST", "PUT", "PATCH", "DELETE")

Chosen = Callable[[str, str], bool]
"""Whether a request, by its method and path, is meant."""


def all_writes(method: str, path: str) -> bool:
    """Every request that writes."""
    return method in WRITES


def all_binds(method: str, path: str) -> bool:
    """Every bind."""
    return method == "POST" and path.endswith("/binding")


@dataclass(slots=True)
class Faults:
    """The faults of one server; none at first."""

    lag: float = 0.0
    """Seconds that every answer waits."""
    watch_lag: float = 0.0
    """Seconds that every piece of a watch waits."""
    stall_watches: bool = False
    """Watches stay open and say nothing, bookmarks included."""
    refuse: bool = False
    """Every connection is cut at its next request, without an answer."""
    fail_share: float = 0.0
    """The share of requests that are refused and not carried out."""
    fail_codes: tuple[int, ...] = (429, 500)
    fails: Chosen = all_writes
    drop_share: float = 0.0
    """The share of requests that are carried out, and whose connection is then cut instead of an answer."""
    drop_next: int = 0
    """So many of the next requests are dropped in that way, for certain."""
    drops: Chosen = all_writes
    cut_watches_every: float = 0.0
    """Seconds after which every watch is cut, again and again; 0 for never."""
    seed: int = 0
    _dice: random.Random | None = field(default=None, repr=False)

    def clear(self) -> None:
        """No faults any more."""
        for fault in fields(self):
            if fault.name not in ("seed", "_dice"):
                setattr(self, fault.name, fault.default)

    def failure(self, method: str, path: str) -> int:
        """The code to refuse a request with; 0 to carry it out."""
        if self.fail_share and self.fails(method, path) and self._draw() < self.fail_share:
            return self.fail_codes[int(self._draw() * len(self.fail_codes))]
        return 0

    def dropped(self, method: str, path: str) -> bool:
        """Whether the answer to a request that was carried out gets lost."""
        if self.drop_next > 0 and self.drops(method, path):
            self.drop_next -= 1
            return True
        return bool(self.drop_share) and self.drops(method, path) and self._draw() < self.drop_share

    def _draw(self) -> float:
        if self._dice is None:
            self._dice = random.Random(self.seed)
        return self._dice.random()
