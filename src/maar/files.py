"""Reads files that Maar is told to use, such as the configuration, tokens and certificates.

Only regular files of a limited size are read: opening a FIFO waits for its writer, a device may have no end, and
parsing a huge file takes the time in which a lease is renewed. A refusal is an `OSError` with the file's name.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST = 1 << 20
"""The largest file that is read, in bytes: what a ConfigMap or a Secret may hold."""

_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_regular(path: Path | str, most: int = LARGEST) -> bytes:
    """The content of a regular file of at most `most` bytes; raises `OSError` otherwise, and never waits."""
    check_regular(path, most)
    # Between the check and here the path may become a FIFO: without O_NONBLOCK, opening it would wait.
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(number, "rb") as file:
        _check(os.fstat(number), path, most)
        data = file.read(most + 1)
    if len(data) > most:
        raise _too_large(path, most)
    return data


def check_regular(path: Path | str, most: int | None = LARGEST) -> None:
    """Raises `OSError` unless the path is a regular file of at most `most` bytes (`None`: of any size)."""
    _check(os.stat(path), path, most)


def _check(found: os.stat_result, path: Path | str, most: int | None) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(found.st_mode)), "something else")
        raise OSError(errno.EINVAL, f"expected a regular file, got {kind}", str(path))
    if most is not None and found.st_size > most:
        raise _too_large(path, most, found.st_size)


def _too_large(path: Path | str, most: int, size: int | None = None) -> OSError:
    got = "" if size is None else f", got {size:,}"
    return OSError(errno.EFBIG, f"too large: expected at most {most:,} bytes{got}", str(path))
