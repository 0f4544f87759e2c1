"""What the parts of `maar.web.metrics` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from maar.controller.snapshots.cycle import Cycle

Made = Callable[..., Any]
"""Makes a metric from its kind, name, help text and labels."""


class Part(Protocol):
    """Some of the metrics of a process."""

    def update(self, last: Cycle | None) -> None:
        """Read everything; `last` is the last cycle."""
