"""For tests that read watches and decide nothing."""

from __future__ import annotations


class NoCycles:
    """Runs no cycle, whatever happens."""

    def trigger(self, *, wake: bool = False) -> None: ...

    def trigger_later(self, *, wake: bool = False) -> None: ...
