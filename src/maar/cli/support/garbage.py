"""Without the garbage collector: for commands that read a cluster, answer one question, and end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage() -> Iterator[None]:
    """Disable the garbage collector: it takes up to half of the reading time and finds nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
