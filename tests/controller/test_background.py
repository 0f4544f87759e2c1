"""A background task that ends unexpectedly, such as a watch, ends the process: it must not keep the lease.

Parts that decisions do not depend on start again by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.live import connected, scheduling

from maar.controller.observer import BackgroundTaskFailed
from maar.embedded.server import EmbeddedServer
from maar.history.history import History
from maar.history.records import Event, EventKind
from maar.kube.write.executor import Lane


async def fails() -> None:
    raise ZeroDivisionError("a bug")


async def ends() -> None:
    """Returns although it should go on."""


async def cancels_itself() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("work", "why"),
    [(fails, "ZeroDivisionError: a bug"), (ends, "RuntimeError: .*has ended"), (cancels_itself, "CancelledError")],
)
def test_safety_a_background_task_that_ends_ends_the_scheduler(
    box: EmbeddedServer, tmp_path: Path, work: Callable[[], Coroutine[Any, Any, None]], why: str
) -> None:
    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster, scheduling(cluster) as scheduler:
            watching = asyncio.create_task(scheduler.failed())
            scheduler.background(work(), endless=True)
            with pytest.raises(BackgroundTaskFailed, match=why):
                await asyncio.wait_for(watching, 10)
            assert re.match(why, scheduler.trouble)

    asyncio.run(story())


def test_safety_a_worker_of_the_executor_that_ends_ends_the_scheduler(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster, scheduling(cluster) as scheduler:
            watching = asyncio.create_task(scheduler.failed())
            scheduler.executor._lines.ready.append("no such line")
            scheduler.executor._start(Lane.FIRST)
            with pytest.raises(BackgroundTaskFailed, match="KeyError"):
                await asyncio.wait_for(watching, 10)

    asyncio.run(story())


def test_liveness_a_database_that_is_back_is_used_again_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "history" / "h.db"
    file.parent.write_text("not a folder")

    async def story() -> None:
        history = History(f"sqlite:///{file}", refresh=0.05)
        history.start()
        await _until(lambda: "File exists" in history.problem)
        file.parent.unlink()
        await _until(lambda: not history.problem)
        assert 0 == history.restarts, "it was not there before"
        with contextlib.closing(sqlite3.connect(file)) as other:
            for table in ("accounting", "measurements", "history"):
                other.execute(f"DROP TABLE maar_{table}")
            other.commit()
        history.record(Event("ns", "job", EventKind.SUBMITTED, 1.0, uid="u"))
        await _until(lambda: 1 == history.restarts)
        assert "" == history.problem
        await history.close()

    asyncio.run(story())


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)
