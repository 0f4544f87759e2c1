"""Starts Maar with a clock that tests can step and with a disk that is soon full. Only tests run it, as a process.

    python -P shaken.py CLOCK DISK run ...

CLOCK is a file with the seconds by which the wall clock is wrong, as 8 bytes; `step` writes it, at any time. DISK is
how many bytes fit into a file; 0 for no limit. Both work without rights: `time.time` is replaced before Maar is
imported, and the limit is the kernel's RLIMIT_FSIZE. The log goes through a pipe, which has no such limit.
"""

from __future__ import annotations

import mmap
import os
import resource
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

SECONDS = struct.Struct("d")


def step(clock: Path, seconds: float) -> None:
    """Make the wall clock of a process wrong by this many seconds."""
    with clock.open("r+b" if clock.exists() else "wb") as file:
        file.write(SECONDS.pack(seconds))


def _shifted(clock: Path) -> Callable[[], float]:
    with clock.open("rb") as file:
        wrong_by = mmap.mmap(file.fileno(), SECONDS.size, access=mmap.ACCESS_READ)
    true_time = time.time
    return lambda: true_time() + float(SECONDS.unpack(wrong_by[:])[0])


def _limit(disk: int, clock: str, arguments: list[str]) -> NoReturn:
    """Start again with a limit on the size of files; a copy of this process writes the log."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(writing)
        while data := os.read(reading, 65_536):
            os.write(1, data)
        os._exit(0)
    os.close(reading)
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (disk, disk))
    os.execv(sys.executable, [sys.executable, "-P", __file__, clock, "0", *arguments])


def main() -> None:
    clock, disk, *arguments = sys.argv[1:]
    if int(disk):
        _limit(int(disk), clock, arguments)
    time.time = _shifted(Path(clock))
    from maar.cli.main import main as maar

    maar(arguments)


if __name__ == "__main__":
    main()
