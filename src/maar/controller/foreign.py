"""Notices other schedulers: a pod of ours was bound, and Maar did not send the bind.

Two schedulers for the same pods, or on the same nodes, can over-commit a node, because the API server does not check
capacity.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from maar.kube.wire.pods import Pod

logger = logging.getLogger("maar.controller")

EVERY = 60.0
"""Minimum seconds between two warnings; tuned by hand."""


@dataclass(eq=False, slots=True)
class ForeignBinds:
    """Counts binds by other schedulers, and warns."""

    _names: frozenset[str]
    _leads: Callable[[], bool]
    _clock: Callable[[], float] = time.monotonic
    count: int = 0
    _warned: float | None = None
    _since: int = 0

    def bound(self, pod: Pod) -> None:
        """A waiting pod got a node by a bind that this process did not send."""
        if pod.spec.scheduler_name not in self._names or not self._leads():
            return
        self.count += 1
        self._since += 1
        now = self._clock()
        if self._warned is None or now - self._warned >= EVERY:
            logger.warning(
                "another scheduler bound %d pods with schedulerName `%s`, the last was `%s` to `%s`: "
                "nodes may be over-committed",
                self._since,
                pod.spec.scheduler_name,
                pod.key,
                pod.spec.node_name,
            )
            self._warned, self._since = now, 0
