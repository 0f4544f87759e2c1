"""What every process that watches a cluster for long does: opens its files, saves memory, and ends on a signal.

`maar run`, its shadow mode and `maar web` are such processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import signal
from asyncio.sslproto import SSLProtocol
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, NamedTuple

from maar import __version__
from maar.config.file import ConfigError
from maar.controller.settings.brake_file import BrakeFile
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.settings import Observing, Settings
from maar.history.errors import BadAddress
from maar.history.history import History
from maar.kube.client.access import Access
from maar.kube.client.backoff import cancel
from maar.kube.client.errors import AccessError, ApiError

logger = logging.getLogger("maar")

NAME, LEASE_NAMESPACE = "maar", "kube-system"
"""The default scheduler name, which is also the name of its lease, and the namespace of all leases by default."""
GC_THRESHOLD = (10_000, 10, 10)
"""Python's cyclic garbage collector runs rarely, because Maar creates few reference cycles; tuned by hand."""
READ_AT_ONCE = 64 * 1024
"""Bytes that a TLS connection decrypts at once: four records. asyncio keeps a buffer of this size for each connection.
Its default is 256 kB, and 50 connections then take 15 MB instead of 5 MB."""
TRIM_EVERY = 30.0
"""Seconds between two returns of freed memory. Without them it grew by 2 % a minute while 2,000 gangs waited, because
every cycle frees many small blocks between those that stay."""


class RunError(Exception):
    """Why Maar could not start, or had to stop."""


class BadOptions(RunError):
    """A file or an address that Maar was started with cannot be used."""


class BackgroundTaskFailed(Exception):
    """A task that decisions depend on has ended unexpectedly."""


class Sources(NamedTuple):
    """What a process reads besides the cluster."""

    config: ConfigFile
    brakes: Brakes
    brake_file: BrakeFile | None
    history: History


def sources_of(options: Observing, default_history: str, *, write: bool) -> Sources:
    """Read the files of a process. `write`: whether it records what happens in the history."""
    with _usable():
        brakes = Brakes()
        return Sources(
            ConfigFile(options.config, options.lenient),
            brakes,
            None if options.brakes is None else BrakeFile(options.brakes, brakes),
            History(options.history or default_history, write=write),
        )


@contextlib.contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except (ConfigError, BadAddress) as error:
        raise BadOptions(str(error)) from None
    except OSError as error:
        raise BadOptions(f"{error.filename}: {error.strerror}") from None


def run_process(work: Coroutine[Any, Any, None], *more: type[Exception]) -> None:
    """Run until the work ends. Its expected errors, and `more` of them, are raised as `RunError`."""
    save_memory()
    expected: tuple[type[Exception], ...] = (AccessError, ApiError, BackgroundTaskFailed, *more)
    try:
        asyncio.run(work)
    except expected as error:
        raise RunError(str(error)) from None
    except OSError as error:
        if error.filename is None:
            raise
        raise RunError(f"{error.filename}: {error.strerror}") from None


def hello(access: Access, settings: Settings) -> None:
    """Log what a process begins with."""
    names = " or ".join(sorted(settings.scheduler_names))
    logger.info("Maar %s on %s, for pods with schedulerName %s", __version__, access.server, names)


def save_memory() -> None:
    """Settings of the whole process, for programs that run for long. No import makes them."""
    gc.set_threshold(*GC_THRESHOLD)
    SSLProtocol.max_size = READ_AT_ONCE


async def return_memory() -> None:
    """Return freed memory to the system now and then, if the C library can (glibc does)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while True:
        await asyncio.sleep(TRIM_EVERY)
        if trim is not None:
            await asyncio.to_thread(trim, 0)


async def until_stopped(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run until SIGTERM or SIGINT, or until one of `works` ends; raises what it raised."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    tasks = [asyncio.create_task(work) for work in works]
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await cancel((*tasks, stopping))
