"""The page of `maar demo`: `maar web` on the demo's cluster, as a child process. The story does not depend on it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

from maar.demo import child as processes

PATIENCE = 20.0
"""Seconds to wait for its address; far more than it takes, tuned by hand."""
NICE = 10
"""Its priority, so that the scheduler goes first on a busy machine."""


class Page:
    """One `maar web`, on a free port of the loopback interface.

    It answers without a token: the cluster is pretended, the process only reads it, and no other host can reach it. A
    token in the printed address would stay in the history of terminals and browsers.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self.address = ""
        """Where it serves; empty before `serving` has found it."""
        self._child: asyncio.subprocess.Process | None = None

    async def start(self, options: Iterable[str]) -> None:
        """Start it; it is not ready yet."""
        self._child = await processes.started("web", (*options, "--anonymous", "--port", "0"), self.log)

    async def serving(self, patience: float = PATIENCE) -> bool:
        """Wait until it serves; false if it has not started. From then on it uses only CPU time that is left over."""
        ends = time.monotonic() + patience
        while (child := self._child) is not None and child.returncode is None and time.monotonic() < ends:
            if found := re.search(r"serving at (\S+)", self._text()):
                self.address = found[1]
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, child.pid, NICE)
                return True
            await asyncio.sleep(0.05)
        return False

    @property
    def ended(self) -> str:
        """Why it serves no longer; empty while it runs, and if it was never started."""
        code = None if self._child is None else self._child.returncode
        return "" if code is None else f"it ended with code {code}: {(self._text().splitlines() or [''])[-1]}"

    async def stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        await processes.ended(child)

    def _text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""
