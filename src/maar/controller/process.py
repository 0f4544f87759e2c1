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
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from maar import __version__
from maar.config.file import ConfigError
from maar.controller.observer import BackgroundTaskFailed, Observer
from maar.controller.settings.brake_file import BrakeFile
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.settings import Observing
from maar.history.errors import BadAddress
from maar.history.history import History
from maar.kube.client.access import Access, load_access
from maar.kube.client.backoff import cancel
from maar.kube.client.errors import AccessError, ApiError
from maar.kube.client.reader import Reader

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


Work = Coroutine[Any, Any, None]


class RunError(Exception):
    """Why Maar could not start, or had to stop."""


class BadOptions(RunError):
    """A file or an address that Maar was started with cannot be used."""


class Sources(NamedTuple):
    """What a process reads besides the cluster."""

    config: ConfigFile
    brakes: Brakes
    brake_file: BrakeFile | None
    history: History


def sources_of(options: Observing, default_history: str, *, write: bool) -> Sources:
    """Read the files of a process. `write`: whether it records what happens in the history."""
    try:
        brakes = Brakes()
        return Sources(
            ConfigFile(options.config, options.lenient),
            brakes,
            None if options.brakes is None else BrakeFile(options.brakes, brakes),
            History(options.history or default_history, write=write),
        )
    except (ConfigError, BadAddress) as error:
        raise BadOptions(str(error)) from None
    except OSError as error:
        raise BadOptions(f"{error.filename}: {error.strerror}") from None


def run_process(work: Work, *more: type[Exception]) -> None:
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


def access_of(options: Observing) -> Access:
    """How to reach the cluster of a process that decides for pods."""
    access = load_access(options.kubeconfig, options.context)
    names = " or ".join(sorted(options.settings.scheduler_names))
    logger.info("Maar %s on %s, for pods with schedulerName %s", __version__, access.server, names)
    return access


async def live(
    observer: Observer,
    api: Reader,
    sources: Sources,
    web: AbstractAsyncContextManager[None] | None,
    work: Callable[[], Work],
) -> None:
    """Work, and serve HTTP, until stopped; then close everything."""
    async with contextlib.AsyncExitStack() as parts:
        parts.callback(logger.info, "stopped")
        parts.push_async_callback(api.close)
        sources.history.start()
        parts.push_async_callback(sources.history.close)
        parts.push_async_callback(observer.close)
        if web is not None:
            await parts.enter_async_context(web)
        await until_stopped([work(), *beside(observer, sources)])


def beside(observer: Observer, sources: Sources) -> list[Work]:
    """What every process does besides its own work."""
    works: list[Work] = [observer.failed(), return_memory()]
    if sources.brake_file is not None:
        sources.brake_file.on_changed.append(observer.look_again)
        works.append(sources.brake_file.watch())
    return works


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


async def until_stopped(works: Iterable[Work]) -> None:
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
