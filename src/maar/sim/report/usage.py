"""Utilisation over time: GPUs in use and waiting jobs, one band per policy on the same time axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from maar.model.resources import Floats
from maar.model.words import count
from maar.sim.report import svg
from maar.sim.report.frame import LEFT, WIDTH, AxisSpan, Figure, shares
from maar.sim.report.scales import Scale, duration, percent
from maar.sim.result import Run

BAND = 70.0
GAP = 34.0

PARTS = 440
"""Parts of the time axis: two pixels each."""


def usage(runs: Sequence[Run], span: AxisSpan) -> Figure:
    parts: list[str] = []
    top = GAP
    most = max((sample.waiting for run in runs for sample in run.samples), default=0.0)
    for i, run in enumerate(runs):
        parts.extend(_band(run, i, span, top, most))
        top += BAND + GAP
    height = top - GAP + 26
    parts = [*span.axis(GAP, height - 26), *parts]
    title = "Utilisation over time"
    part = duration(span.length / PARTS)
    caption = (
        f"Filled: GPUs in use. Line: waiting jobs, at most {most:,.0f}. Each point is the mean of {part}. "
        "Time counts from the first submission."
    )
    about = "; ".join(f"{run.policy}: {percent(run.gpu_utilisation)} of {count(run.gpus, 'GPU')}" for run in runs)
    return Figure("utilisation", title, caption, svg.drawing(WIDTH, height, title, about, *parts, id_="utilisation"))


def _band(run: Run, number: int, span: AxisSpan, top: float, most: float) -> Iterable[str]:
    colour, _ = svg.series(number)
    bottom = top + BAND
    yield from shares(top, bottom, (0.0, 0.5, 1.0))
    yield svg.text(f"{run.policy}: {percent(run.gpu_utilisation)} of {count(run.gpus, 'GPU')}", LEFT, top - 8)
    if len(run.samples) < 2:
        return
    moments = np.linspace(span.start, span.end, PARTS + 1)
    times = np.array([sample.time for sample in run.samples])
    x = span.scale()
    for values, full, draw in (
        ([sample.gpus for sample in run.samples], float(run.gpus), True),
        ([sample.waiting for sample in run.samples], most, False),
    ):
        y = Scale(0.0, max(full, 1e-9), bottom, top)
        means = averaged(times, np.array(values), moments)
        points = [(x(float(at)), y(float(mean))) for at, mean in zip(moments, means, strict=False)]
        points.append((x(span.end), points[-1][1]))
        yield svg.area(points, bottom, f"a f{colour}", steps=True) if draw else svg.path(points, "w", steps=True)


def averaged(times: Floats, values: Floats, moments: Floats) -> Floats:
    """Means between moments of a step function: `values[i]` from `times[i]` to `times[i + 1]`, and 0 after the last.

    >>> averaged(np.array([0.0, 4.0]), np.array([8.0, 0.0]), np.array([0.0, 2.0, 6.0]))
    array([8., 4.])
    """
    total = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(times))))
    means: Floats = np.diff(np.interp(moments, times, total)) / np.diff(moments)
    return means
