"""What was decided and no watch has shown yet: assumed at once, confirmed when it is seen, forgotten if it fails.

A decision is laid over its object as soon as it is made, so that the next cycle does not make it again:

                    decide                        a watch shows it, or more
    as seen ──────────────────► assumed ───────────────────────────────────► as seen
       ▲                         │   ▲
       │  the write fails:       │   │  the API server accepts the write:
       └──────── forget ─────────┘   │  accept
                                     ▼
                                  accepted

A decision may follow another one that the API server accepted and no watch has shown yet, as an eviction follows a
bind. If the later one fails, the accepted one counts again, until the object shows it.

Pods have such assumptions (binds, nominations, evictions), and so have elastic jobs (sizes). The admission of a
PodGroup cannot fail, so `groups` only remembers it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from maar.model.tasks import Status

K = TypeVar("K")
A = TypeVar("A")


class Assumed(msgspec.Struct, frozen=True):
    """The state of a pod once all decisions are carried out."""

    uid: str
    status: Status
    node: str = ""
    chosen: tuple[tuple[str, str], ...] = ()
    """What counters chose there (`Bind.chosen`)."""


class Assumptions(dict[K, A]):
    """What is assumed about the objects of one sort. `mark` is called for each object that must be read again."""

    def __init__(self, mark: Callable[[K], None]) -> None:
        super().__init__()
        self._mark = mark
        self._accepted: dict[K, A] = {}
        """What the API server accepted last, until the object shows it."""
        self.on_forget: list[Callable[[], None]] = []
        """Called whenever something did not come true."""

    def assume(self, key: K, assumed: A) -> None:
        """Lay over an object what was decided for it."""
        if self.get(key) != assumed:
            self[key] = assumed
            self._mark(key)

    def accept(self, key: K, assumed: A, accepted: A) -> None:
        """The API server has accepted what was assumed, which is `accepted` from now on. A later decision stays."""
        self._accepted[key] = accepted
        known = self.get(key)
        if known is None:
            self._mark(key)
        if known is None or known == assumed:
            self[key] = accepted

    def forget(self, key: K) -> None:
        """What was assumed last did not come true."""
        if self.pop(key, None) is not None:
            self._mark(key)
            if (accepted := self._accepted.get(key)) is not None:
                self[key] = accepted
        for listener in self.on_forget:
            listener()

    def confirm(self, key: K, is_seen: Callable[[A], bool] = lambda assumed: True) -> A | None:
        """Drop what an object shows by now, or can no longer get; returns what was assumed, if that goes."""
        accepted, assumed = self._accepted.get(key), self.get(key)
        if accepted is not None and is_seen(accepted):
            del self._accepted[key]
        if assumed is None or not is_seen(assumed):
            return None
        del self[key]
        return assumed
