"""A background task that fails, such as a watch, ends the process: it must not keep the lease and decide nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.live import connected, scheduling

from maar.controller.scheduler import BackgroundTaskFailed
from maar.embedded.server import EmbeddedServer


async def fails() -> None:
    raise ZeroDivisionError("a bug")


def test_safety_a_failed_background_task_ends_the_scheduler(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster, scheduling(cluster) as scheduler:
            watching = asyncio.create_task(scheduler.failed())
            scheduler.background(fails())
            with pytest.raises(BackgroundTaskFailed, match="ZeroDivisionError: a bug"):
                await asyncio.wait_for(watching, 10)
            assert "ZeroDivisionError: a bug" == scheduler.trouble

    asyncio.run(story())
