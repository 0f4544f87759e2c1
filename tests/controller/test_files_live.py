"""Files that change while Maar runs hold up neither decisions nor the lease, whatever they become."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.confs import ALLOCATE, PREEMPT
from tests.support.live import Live, bound, scheduling, tell
from tests.support.patience import until

from maar.controller.settings.config_file import ConfigFile


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _huge(path: Path) -> None:
    path.write_text(ALLOCATE + "".join(f"key{i}: [1, 2, 3]\n" for i in range(500_000)))


@pytest.mark.parametrize(("become", "why"), [(_fifo, "got a FIFO"), (_huge, "too large: expected at most 1,048,576")])
def test_decisions_go_on_beside_a_file_that_cannot_be_read(
    kubeconfig: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, become: Callable[[Path], None], why: str
) -> None:
    caplog.set_level(logging.ERROR)
    path, other = tmp_path / "maar.yaml", tmp_path / "other"
    path.write_text(ALLOCATE)

    async def story(cluster: Live) -> None:
        async with scheduling(cluster, config=path) as scheduler:
            await cluster.gang("before", 1, gpu=1)
            await cluster.until(bound("before", 1))
            become(other)
            os.replace(other, path)
            await cluster.eventually(lambda: scheduler.config.problems, "the file is refused")
            assert why in scheduler.config.problems[0]
            assert ALLOCATE == scheduler.config.text
            await cluster.gang("after", 1, gpu=1)
            await cluster.until(bound("after", 1))
            other.write_text(PREEMPT)
            os.replace(other, path)
            await cluster.eventually(lambda: scheduler.config.text == PREEMPT, "the next valid file is used")

    tell(kubeconfig, story)
    assert [f"configuration refused, the previous one stays in use: {path}"] == [
        message[: len("configuration refused, the previous one stays in use: ") + len(str(path))]
        for message in caplog.messages
    ]


class SlowDisk(ConfigFile):
    """A file on a disk that does not answer for a while."""

    def __init__(self, path: Path) -> None:
        self.asked, self.answers = threading.Event(), threading.Event()
        self.answers.set()
        super().__init__(path)

    def _content(self, path: Path) -> bytes:
        self.asked.set()
        self.answers.wait()
        return super()._content(path)


def test_a_disk_that_does_not_answer_holds_up_only_the_file(tmp_path: Path) -> None:
    """And not the end of the program either."""
    path = tmp_path / "maar.yaml"
    path.write_text(ALLOCATE)
    file = SlowDisk(path)

    async def story() -> None:
        file.asked.clear()
        file.answers.clear()
        path.write_text(PREEMPT)
        watching = asyncio.create_task(file.watch())
        await until(file.asked.is_set)
        turns = 0
        while turns < 100:  # the event loop goes on
            await asyncio.sleep(0)
            turns += 1
        assert ALLOCATE == file.text
        file.answers.set()
        await until(lambda: file.text == PREEMPT)
        file.asked.clear()
        file.answers.clear()
        await until(file.asked.is_set)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(story())  # ends although a read is still waiting
    assert not file.answers.is_set()
    file.answers.set()
