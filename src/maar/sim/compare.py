"""Runs several policies on one trace, each in its own process, for `maar simulate`.

Each `ComparedRun` is an algorithm on counted GPUs or a configuration on a virtual cluster, as plain text that can be
sent to another process. Processes are spawned, not forked: each reads its own catalog.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import msgspec

from maar.config.config import Config
from maar.config.file import default_text, read_config
from maar.registry import catalog
from maar.sim import cluster, pool
from maar.sim.result import Run
from maar.sim.setting import Setting
from maar.sim.trace import Trace

Watcher = Callable[[Sequence[int]], None]
"""Called with the number of ended jobs of each run."""
EVERY = 0.2
"""Seconds between two progress updates."""


class ComparedRun(msgspec.Struct, frozen=True):
    """One run."""

    name: str
    """An algorithm, or the file of a configuration."""
    config: str | None = None
    """The text of the configuration; None runs the algorithm called `name`."""
    depth: str = "pool"
    lenient: bool = False
    """Whether the configuration is read leniently."""


def compare(
    trace: Trace, entries: Sequence[ComparedRun], setting: Setting, processes: int, watcher: Watcher | None = None
) -> list[Run]:
    """The runs, in the order of the entries."""
    if processes == 1 or len(entries) == 1:
        return _run_here(trace, entries, setting, watcher)
    spawn = multiprocessing.get_context("spawn")
    done = spawn.Array("q", len(entries))
    workers = min(processes, len(entries))
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(workers, spawn, initializer=_begin, initargs=(trace, setting, done)) as executor:
        with _without_interrupts():
            runs = [executor.submit(_run_in_process, number, entry) for number, entry in enumerate(entries)]
        left = set(runs)
        try:
            while left:
                ended, left = wait(left, EVERY, FIRST_COMPLETED)
                for run in ended:
                    run.result()
                if watcher is not None:
                    watcher(done[:])
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise
        return [run.result() for run in runs]


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that start meanwhile never get Ctrl-C, which a terminal sends to all: this one ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def play(trace: Trace, entry: ComparedRun, setting: Setting, progress: pool.Progress | None = None) -> Run:
    if entry.depth == "pool":
        return pool.simulate(trace, catalog().algorithms[entry.name], setting, progress)
    managed = entry.config is None
    return cluster.simulate(trace, config_of(entry, setting), setting, entry.name, managed, progress)


def config_of(entry: ComparedRun, setting: Setting) -> Config:
    """The configuration of an entry. For an algorithm: Maar's default with that algorithm in all pools."""
    if entry.config is not None:
        return read_config(entry.config, entry.name, catalog(), entry.lenient).config
    config = read_config(default_text(), "maar/default.yaml", catalog()).config
    algorithm = catalog().algorithms[entry.name]
    pools = tuple(
        msgspec.structs.replace(
            option,
            algorithm=algorithm,
            arguments=algorithm.arguments(),
            restart=setting.restart,
            horizon=setting.horizon,
        )
        for option in config.pools
    )
    return msgspec.structs.replace(config, pools=pools)


def _run_here(trace: Trace, entries: Sequence[ComparedRun], setting: Setting, watcher: Watcher | None) -> list[Run]:
    done = [0] * len(entries)
    last = time.monotonic()
    runs = []
    for number, entry in enumerate(entries):

        def progress(ended: int, total: int, number: int = number) -> None:
            nonlocal last
            done[number] = ended
            if watcher is not None and time.monotonic() - last >= EVERY:
                last = time.monotonic()
                watcher(done)

        runs.append(play(trace, entry, setting, progress))
        done[number] = len(trace.jobs)
        if watcher is not None:
            watcher(done)
    return runs


_given: tuple[Trace, Setting, Any] | None = None
"""The arguments of this process's initializer."""


def _begin(trace: Trace, setting: Setting, done: Any) -> None:
    global _given
    _given = trace, setting, done


def _run_in_process(number: int, entry: ComparedRun) -> Run:
    assert _given is not None
    trace, setting, done = _given
    parent = multiprocessing.parent_process()
    assert parent is not None

    def progress(ended: int, total: int) -> None:
        done[number] = ended
        if os.getppid() != parent.pid:  # the parent was killed: the result is not needed
            os._exit(1)

    run = play(trace, entry, setting, progress)
    done[number] = len(trace.jobs)
    return run
