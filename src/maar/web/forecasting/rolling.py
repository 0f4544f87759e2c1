"""From a question to its answer: rolls the scenes of a question forward within a budget of time.

The forecasting process calls it, and commands that forecast by themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from maar.forecast.arrivals import arrivals_for
from maar.forecast.forecast import Forecast, Options, forecast
from maar.lengths.runtimes import RunTimes
from maar.model.plan import Plan
from maar.model.snapshot import Snapshot
from maar.web.forecasting.messages import ForecastAnswer, ForecastQuestion, QuestionHead
from maar.whatif.edit import Scene
from maar.whatif.place import places


def answered(
    question: ForecastQuestion,
    alive: Callable[[], bool] = lambda: True,
    plan: Plan | None = None,
    only: str = "",
) -> ForecastAnswer:
    """The forecasts of all scenes, with the same futures.

    `plan` is that of the only scene, if it is known; with `only`, nothing is said about other jobs.
    """
    head, scenes = question.head, question.scenes
    run_times = RunTimes(question.samples)
    begun = time.monotonic()
    ends = begun + head.budget

    def made(some: Sequence[Scene], rollouts: int) -> tuple[Forecast, ...]:
        options = Options(rollouts=rollouts, seed=head.seed)
        future = arrivals_for(
            scenes[0].cluster, question.past, head.now, run_times, options=options, categories=question.categories
        )
        return tuple(
            forecast(
                scene.cluster,
                scene.config,
                head.now,
                run_times,
                options=options,
                may_go_on=lambda: alive() and time.monotonic() < ends,
                categories=question.categories,
                arrivals=future,
                plan=plan,
                only=only,
            )
            for scene in some
        )

    rollouts = _chosen(head, len(scenes), lambda: made(scenes[:1], 1)) if head.adapts else head.rollouts
    forecasts = made(scenes, rollouts)
    first = scenes[0]
    order = places(Snapshot(first.cluster), first.config, head.now) if head.places else {}
    return ForecastAnswer(forecasts, order, time.monotonic() - begun)


def _chosen(head: QuestionHead, scenes: int, once: Callable[[], object]) -> int:
    """The number of roll-outs that fit in the budget for all scenes, by the time that one of them takes."""
    begun = time.monotonic()
    once()
    took = max(time.monotonic() - begun, 1e-3)
    return max(min(int((head.budget - took) * 0.7 / (took * scenes)), head.rollouts), 1)
