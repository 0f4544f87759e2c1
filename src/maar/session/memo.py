"""The memo: where modules cache what they compute in a session.

    fixed    depends only on the snapshot, the configuration and the hooks: valid for the whole session
    current  depends also on the state: valid while the state is this one, also again after a rollback. It must not be
             a column that follows the state

The owner is the module that computes the values. Only the owner reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from maar.session.journal import Journal

T = TypeVar("T")


class Memo:
    """Cached values of one session, by owner and key."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._fixed: dict[tuple[str, Hashable], Any] = {}
        self._current: dict[tuple[str, Hashable], tuple[int, Any]] = {}
        """Each value with the version of the state it was computed from."""

    def fixed(self, owner: str, key: Hashable, make: Callable[[], T]) -> T:
        """The value for a key, computed at most once."""
        if (owner, key) not in self._fixed:
            self._fixed[owner, key] = make()
        value: T = self._fixed[owner, key]
        return value

    def current(self, owner: str, key: Hashable, make: Callable[[], T]) -> T:
        """The value for a key in the current state; `make` must not change the state."""
        known = self._current.get((owner, key))
        if known is not None and known[0] == self._journal.version:
            found: T = known[1]
            return found
        value = make()
        self._current[owner, key] = self._journal.version, value
        return value
