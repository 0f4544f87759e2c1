"""The forecasting process: what goes in comes out, its budget, its memory, and its end."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.patience import until, wait_until

from maar.config.file import default_config
from maar.forecast.arrivals import Asked, Pods, Submission
from maar.lengths.runtimes import RunSample, Traits
from maar.model.snapshot import Snapshot
from maar.registry import catalog
from maar.testing.builders import cluster, elastic, gang, node
from maar.web.forecasting.messages import PART, ForecastQuestion, QuestionHead, parts_of, read
from maar.web.forecasting.process import ProcessFailed, ask
from maar.web.forecasting.rolling import answered
from maar.whatif.edit import Scene
from maar.whatif.place import place_of, places

CONFIG = default_config(catalog())
NOW = 10_000.0


def question(jobs: int = 3, budget: float = 60.0, **head: Any) -> ForecastQuestion:
    """One node, on which jobs of 100 s run one after the other, the first from 500 s from now."""
    first = gang("first", gpu=8, on=["n1"], promise=600.0, task={"started": NOW - 100.0, "controlled": True})
    others = (gang(f"next-{i:03}", gpu=8, promise=100.0, created=float(i)) for i in range(jobs))
    scene = Scene(cluster(node("n1", gpu=8), first, *others), CONFIG)
    return ForecastQuestion(QuestionHead(NOW, budget, **{"rollouts": 2, **head}), (scene,))


def test_what_is_sent_is_what_is_read() -> None:
    jobs = [gang(f"g{i}", gpu=1) for i in range(PART + 5)]
    scene = Scene(cluster(node("n1", gpu=8), elastic("e", 1, 4), *jobs), CONFIG)
    asked = ForecastQuestion(
        QuestionHead(NOW, 5.0), (scene, scene), (RunSample(Traits("a", "b"), 5.0),) * 3, {"ns/g1": "vision"}
    )
    past = Submission(5.0, "default", Traits("a", "b"), Asked((Pods(2, (("cpu", 1),)),)), 5.0, 10.0)
    asked = replace(asked, past=(past,) * 2)
    parts = list(parts_of(asked))
    assert asked == read(io.BytesIO(b"".join(parts)))
    assert len(parts) > 5, "no part is long"
    assert sum(map(len, parts)) < 1.3 * len(b"".join(parts_of(replace(asked, scenes=(scene,))))), "shared"


def test_the_process_forecasts() -> None:
    answer = asyncio.run(ask(question(places=True)))
    (made,) = answer.forecasts
    assert (2, 2, NOW) == (made.rollouts, made.wanted, made.at)
    found = made.of("ns/next-001")
    assert found is not None
    assert NOW + 600.0 == found.start.p50
    assert {"ns/next-000": 1, "ns/next-001": 2, "ns/next-002": 3} == answer.places
    assert 0 < answer.memory < 500e6


def test_all_scenes_get_the_same_number_of_roll_outs_within_the_budget() -> None:
    asked = question()
    after = question(2).scenes[0]
    answer = answered(replace(asked, scenes=(*asked.scenes, after), head=replace(asked.head, adapts=True)))
    before, then = answer.forecasts
    assert before.rollouts == then.rollouts > 0
    short = answered(replace(asked, head=replace(asked.head, adapts=True, budget=0.001, rollouts=32)))
    assert 1 == short.forecasts[0].wanted


def test_both_scenes_get_the_same_later_submissions() -> None:
    """An edit that changes nothing moves no start, although what comes is drawn. The jobs that come are important."""
    asked = question(rollouts=4)
    (scene,) = asked.scenes
    wanted = Asked((Pods(1, (("nvidia.com/gpu", 8), ("pods", 1))),), priority=9)
    times = [NOW - 600.0 * n + 100.0 * (n % 5) for n in range(1, 170)]
    past = tuple(Submission(at, "default", Traits("a", "b", 8), wanted, 40.0, at + 50.0) for at in times)
    answer = answered(replace(asked, scenes=(scene, scene), past=past))
    before, then = answer.forecasts
    assert (True, before.jobs) == (before.arrivals, then.jobs)
    (alone,) = answered(asked).forecasts
    assert (False, True) == (alone.arrivals, alone.jobs != before.jobs)


def test_the_time_for_roll_outs_ends() -> None:
    answer = answered(question(budget=0.0))
    assert (0, 2) == (answer.forecasts[0].rollouts, answer.forecasts[0].wanted)
    orphan = answered(question(), lambda: False)
    assert 0 == orphan.forecasts[0].rollouts, "its parent is gone"


def test_a_process_without_enough_memory_fails_alone() -> None:
    with pytest.raises(ProcessFailed, match="exit code"):
        asyncio.run(ask(question(), memory=60 << 20))


def test_places_are_those_of_the_detailed_answer() -> None:
    scene = question(4).scenes[0]
    snapshot = Snapshot(scene.cluster)
    order = places(snapshot, CONFIG, NOW)
    assert 4 == len(order)
    for key, number in order.items():
        place = place_of(Snapshot(scene.cluster), CONFIG, NOW, key)
        assert place is not None
        assert number == place.number


def test_a_wait_that_is_given_up_ends_the_process() -> None:
    async def main() -> None:
        task = asyncio.create_task(ask(question(200, rollouts=1000)))
        await until(lambda: forecasting(os.getpid()))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert set() == forecasting(os.getpid())

    asyncio.run(main())


PARENT = """
import asyncio
from tests.web.forecasting.test_process import question
from maar.web.forecasting.process import ask
asyncio.run(ask(question(200, rollouts=1000, budget=600.0)))
"""


BEGUN_S = 2.0
"""Processor time after which all modules are imported and the question is read."""


def test_the_process_ends_after_its_parent_was_killed() -> None:
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=env)
    try:
        (child,) = wait_until(lambda: forecasting(parent.pid))
        wait_until(lambda: cpu_of(child) > BEGUN_S, "the process is in the middle of its work")
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_until(lambda: b"maar.web.forecasting" not in command_of(child), "it does not go on without its parent")


def forecasting(parent: int) -> set[int]:
    """The forecasting processes that a process has."""
    found = set()
    for file in Path(f"/proc/{parent}/task").glob("*/children"):
        found |= {int(pid) for pid in file.read_text().split() if b"maar.web.forecasting" in command_of(int(pid))}
    return found


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def cpu_of(pid: int) -> float:
    """The processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
