"""Commands of Maar as child processes of the demo, with their output in a file."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path

PATIENCE = 10.0
"""Seconds after which a child that was asked to end is killed."""


async def started(command: str, options: Iterable[str], log: Path) -> asyncio.subprocess.Process:
    """Start a command; it is not ready yet."""
    with log.open("ab") as out:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "maar.cli.main", command, *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )


async def ended(child: asyncio.subprocess.Process) -> int:
    """The exit code of a child that is ending."""
    try:
        return await asyncio.wait_for(child.wait(), PATIENCE)
    except TimeoutError:
        child.kill()
        return await child.wait()
