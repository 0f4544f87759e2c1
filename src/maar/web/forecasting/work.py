"""The forecasting process: reads a question, rolls its scenes forward within a budget, answers, and ends.

It ends when its parent does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable

import msgspec

from maar.forecast.forecast import Forecast, Options, forecast
from maar.forecast.runtimes import RunTimes
from maar.model.snapshot import Snapshot
from maar.web.forecasting.messages import Answer, Head, Question, read
from maar.whatif.edit import Scene
from maar.whatif.place import places

SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
MOST_KILLABLE = "1000"
"""For the kernel's choice of a process to kill when memory is short: this one first."""


def main() -> None:
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(MOST_KILLABLE)
    memory, parent = map(int, sys.argv[1:3])
    limit(memory)
    end_with_parent()
    question = read(sys.stdin.buffer)
    answer = answered(question, lambda: os.getppid() == parent)
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))
    sys.stdout.buffer.flush()


def end_with_parent() -> None:
    """Let the kernel end this process when its parent ends, where it can; else it looks between two steps."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def limit(memory: int) -> None:
    """Bound the memory of this process: more ends it with an error."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def answered(question: Question, alive: Callable[[], bool] = lambda: True) -> Answer:
    """The forecasts of all scenes, with the same futures."""
    head, scenes = question.head, question.scenes
    run_times = RunTimes(question.samples)
    begun = time.monotonic()
    ends = begun + head.budget

    def made(scene: Scene, rollouts: int) -> Forecast:
        options = Options(rollouts=rollouts, seed=head.seed)
        return forecast(
            scene.cluster,
            scene.config,
            head.now,
            run_times,
            options=options,
            may_go_on=lambda: alive() and time.monotonic() < ends,
            categories=question.categories,
        )

    rollouts = _chosen(head, len(scenes), lambda: made(scenes[0], 1)) if head.adapts else head.rollouts
    forecasts = tuple(made(scene, rollouts) for scene in scenes)
    first = scenes[0]
    order = places(Snapshot(first.cluster), first.config, head.now) if head.places else {}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Answer(forecasts, order, time.monotonic() - begun, memory)


def _chosen(head: Head, scenes: int, once: Callable[[], Forecast]) -> int:
    """As many roll-outs as fit in the budget for all scenes, by the time that one of them takes."""
    begun = time.monotonic()
    once()
    took = max(time.monotonic() - begun, 1e-3)
    return max(min(int((head.budget - took) * 0.7 / (took * scenes)), head.rollouts), 1)
