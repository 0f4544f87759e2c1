"""The clock of the controller: a wall clock that is set back stops nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest
from tests.support.live import connected, scheduling

from maar.controller.clock import Clock
from maar.embedded.server import EmbeddedServer

HOUR = 3600.0


class Hands:
    """A wall clock and a steady clock that a test moves."""

    def __init__(self) -> None:
        self.wall = 1000.0
        self.steady = 50.0
        self.clock = Clock(lambda: self.wall, lambda: self.steady)

    def after(self, seconds: float, step: float = 0.0) -> float:
        self.steady += seconds
        self.wall += seconds + step
        return self.clock()


def test_it_is_the_wall_clock_as_long_as_nobody_sets_it_back() -> None:
    hands = Hands()
    assert [1001.0, 1001.5, 4601.5] == [hands.after(1), hands.after(1, -0.5), hands.after(0, HOUR)]


def test_a_step_back_does_not_stop_it_and_it_is_right_again_when_the_wall_clock_has_caught_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hands = Hands()
    with caplog.at_level(logging.WARNING):
        assert [1001.0, 1003.0] == [hands.after(1, -HOUR), hands.after(2)]
    assert ["the clock was set back by 3600 s: going on as if it was not"] == [r.getMessage() for r in caplog.records]
    assert 1013.0 == hands.after(5, HOUR + 5)
    assert 1012.5 == hands.after(0, -0.5)


def test_reasons_are_written_after_the_clock_was_set_back(box: EmbeddedServer, tmp_path: Path) -> None:
    """A reason is written when it has stood for a moment, and that moment must not be an hour away."""
    wrong_by = HOUR

    async def story() -> None:
        nonlocal wrong_by
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            await cluster.nodes(1, gpu=8)
            clock = Clock(lambda: time.time() + wrong_by)
            async with scheduling(cluster, clock=clock) as scheduler:
                await cluster.eventually(lambda: scheduler.loop.cycles, "the first cycle")
                before = scheduler.loop.cycles
                await cluster.pod("large", gpu=16)
                await cluster.eventually(lambda: scheduler.loop.cycles > before, "a decision about it")
                wrong_by = 0.0
                await cluster.until(lambda pods: all(p.message for p in pods), "its reason")

    asyncio.run(story())
