"""Child processes of `maar web`: how they start, and what they do to themselves to bound memory and end with it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

import maar

SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
MOST_KILLABLE = "1000"
"""For the kernel's choice of a process to kill when memory is short: this one first."""


def bound(memory: int) -> None:
    """Limit the address space of this process in bytes, let the kernel choose it first, and end with its parent."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(MOST_KILLABLE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process
    _limit(memory)
    _end_with_parent()


async def started(module: str, memory: int, stderr: int | None = None) -> asyncio.subprocess.Process:
    """A Python process that runs a module with this memory, ends with this one, and talks over its pipes."""
    package = str(Path(maar.__file__).parents[1])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, str(memory), str(os.getpid())),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "PYTHONPATH": path},
    )


def peak() -> int:
    """The most bytes that this program had in memory. What getrusage(2) says includes the parent before the exec."""
    with contextlib.suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def address_space() -> int:
    """The bytes of address space of this process; 0 where the system does not say it."""
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
    return 0


def _end_with_parent() -> None:
    """Let the kernel end this process when its parent ends, where it can; else it looks between two steps."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _limit(memory: int) -> None:
    """Bound the memory of this process: more ends it with an error."""
    if (used := address_space()) > memory:
        raise MemoryError(f"the limit of {memory} bytes is below the {used} bytes of a process that has just started")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
