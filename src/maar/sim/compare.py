"""Several policies on one trace, in processes of their own.

What `maar simulate` runs: each `Entry` is an algorithm on counted GPUs or a configuration on a virtual cluster, told as
plain text so that it reaches another process. Processes are spawned, not forked: each reads its own catalog.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
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
"""Told how many jobs have ended in each run."""
EVERY = 0.2
"""Seconds between two looks at how far runs are."""


class Entry(msgspec.Struct, frozen=True):
    """One run."""

    name: str
    """What it is called: an algorithm, or the file of a configuration."""
    config: str | None = None
    """The text of a configuration; none: the algorithm of that name."""
    depth: str = "pool"


def compare(
    trace: Trace, entries: Sequence[Entry], setting: Setting, processes: int, watcher: Watcher | None = None
) -> list[Run]:
    """All runs, in the order of the entries."""
    if processes == 1 or len(entries) == 1:
        return _here(trace, entries, setting, watcher)
    spawn = multiprocessing.get_context("spawn")
    done = spawn.Array("q", len(entries))
    workers = min(processes, len(entries))
    with ProcessPoolExecutor(workers, spawn, initializer=_begin, initargs=(trace, setting, done)) as executor:
        runs = [executor.submit(_there, number, entry) for number, entry in enumerate(entries)]
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
            raise
        return [run.result() for run in runs]


def play(trace: Trace, entry: Entry, setting: Setting, progress: pool.Progress | None = None) -> Run:
    """One run, here."""
    if entry.depth == "pool":
        return pool.simulate(trace, catalog().algorithms[entry.name], setting, progress)
    managed = entry.config is None
    return cluster.simulate(trace, config_of(entry, setting), setting, entry.name, managed, progress)


def config_of(entry: Entry, setting: Setting) -> Config:
    """A configuration; of an algorithm, Maar's own with that algorithm in all pools."""
    if entry.config is not None:
        return read_config(entry.config, entry.name, catalog()).config
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


def _here(trace: Trace, entries: Sequence[Entry], setting: Setting, watcher: Watcher | None) -> list[Run]:
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
"""What a process was begun with."""


def _begin(trace: Trace, setting: Setting, done: Any) -> None:
    global _given
    _given = trace, setting, done


def _there(number: int, entry: Entry) -> Run:
    assert _given is not None
    trace, setting, done = _given
    parent = multiprocessing.parent_process()
    assert parent is not None

    def progress(ended: int, total: int) -> None:
        done[number] = ended
        if os.getppid() != parent.pid:  # it was killed, and nobody waits for an answer
            os._exit(1)

    run = play(trace, entry, setting, progress)
    done[number] = len(trace.jobs)
    return run
