"""A published cycle has all waits, and no later cycle changes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kube.picture.test_one_reader import pod, thing
from tests.support.objects import decoded

from maar.config.file import default_config
from maar.controller.loop import Loop
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.settings import Settings
from maar.controller.snapshots.cache import Cache
from maar.controller.snapshots.cycle import Cycle
from maar.kube.picture.picture import Picture
from maar.registry import catalog


def cycles_of(*changes: tuple[Any, ...]) -> list[Cycle]:
    """One cycle after each change of the cluster, without anybody who carries out the plans."""
    picture, config, cycles = Picture(frozenset({"maar"})), default_config(catalog()), list[Cycle]()
    loop = Loop(Cache(picture), lambda: (config, None), Settings(), Brakes(), clock=lambda: 1000.0)
    loop.on_cycle.append(cycles.append)
    for change in changes:
        for item in change:
            picture.put(*decoded(item))
        asyncio.run(loop.once())
    return cycles


def test_it_has_the_waits_of_skipped_jobs_and_later_cycles_leave_it_alone() -> None:
    node = thing("v1", "Node", "n1", status={"allocatable": {"cpu": "8", "nvidia.com/gpu": "0", "pods": "110"}})
    before, after = cycles_of((node, pod("first")), (pod("second"),))
    assert (1, {"ns/first"}, {"ns/first"}) == (before.number, set(before.waits), set(before.changed))
    assert (2, {"ns/first", "ns/second"}, {"ns/second"}) == (after.number, set(after.waits), set(after.changed))
    assert (["ns/second"], ["ns/first"]) == ([wait.job for wait in after.plan.waiting], [*after.skipped])
    assert before.waits["ns/first"] is after.waits["ns/first"]


@pytest.mark.parametrize("name", ["waits", "changed", "pods"])
def test_nobody_can_change_it(name: str) -> None:
    (cycle,) = cycles_of(())
    with pytest.raises(TypeError):
        getattr(cycle, name)["ns/x"] = None
    with pytest.raises(AttributeError):
        setattr(cycle, name, {})
