"""The memo: where modules keep what they have computed in a session.

    fixed    made from the snapshot, the configuration and the hooks alone: holds for the session
    current  made from the state too: holds until anything changes or is rolled back

The owner is the module that makes the values; it alone reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from maar.session.journal import Journal

T = TypeVar("T")


class Memo:
    """Computed values of one session, by owner and key."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._fixed: dict[tuple[str, Hashable], Any] = {}
        self._current: dict[tuple[str, Hashable], tuple[int, Any]] = {}
        """With the version of the state that each was made from."""

    def fixed(self, owner: str, key: Hashable, make: Callable[[], T]) -> T:
        """The value for a key, made at most once."""
        if (owner, key) not in self._fixed:
            self._fixed[owner, key] = make()
        value: T = self._fixed[owner, key]
        return value

    def current(self, owner: str, key: Hashable, make: Callable[[], T]) -> T:
        """The value for a key as the state is now; `make` must leave the state as it was."""
        known = self._current.get((owner, key))
        if known is not None and known[0] == self._journal.version:
            found: T = known[1]
            return found
        value = make()
        self._current[owner, key] = self._journal.version, value
        return value
