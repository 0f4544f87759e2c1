"""A listener of the observer, from files outside `src`: one new file, and a line that appends it."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType

from tests.support.live import connected, scheduling

from maar.controller.scheduler import Scheduler
from maar.embedded.server import EmbeddedServer

CROWDED = """
from maar.controller.snapshots.cycle import Cycle


class Crowded:
    'How many jobs wait, and which pods were bound, by the results of cycles.'

    def __init__(self) -> None:
        self.waiting = 0
        self.bound: set[str] = set()

    def on_cycle(self, cycle: Cycle) -> None:
        self.waiting = len(cycle.waits)
        self.bound |= {bind.task for bind in cycle.plan.bind}
        if self.waiting:
            raise ValueError("a bug of the listener")
"""
LINE = "scheduler.loop.on_cycle.append(crowded.on_cycle)"


def test_a_listener_is_one_file_and_one_line(box: EmbeddedServer, tmp_path: Path) -> None:
    """It gets the whole result of each cycle; its errors are its own."""
    file = tmp_path / "crowded.py"
    file.write_text(CROWDED)

    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as live:
            await live.nodes(1, gpu=8)
            async with scheduling(live) as scheduler:
                crowded = _loaded(file).Crowded()
                exec(LINE, {"scheduler": scheduler, "crowded": crowded})
                await live.pod("large", gpu=9)
                await live.eventually(lambda: crowded.waiting == 1, "it hears of a waiting job")
                await live.pod("small", gpu=1)
                await live.until(lambda pods: any(pod.name == "small" and pod.node for pod in pods))
                assert {"default/small"} == crowded.bound
                assert _bugs(scheduler) > 0
                assert "" == scheduler.trouble

    asyncio.run(story())


def _bugs(scheduler: Scheduler) -> int:
    return sum("a bug of the listener" in why for why in scheduler.picture.problems.reasons().values())


def _loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
