"""The distribution of completion times: the share of jobs that ended within a time, one line per policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maar.sim.report import svg
from maar.sim.report.frame import LEFT, RIGHT, WIDTH, Figure, legend, shares
from maar.sim.report.scales import Scale, duration, log_ticks, thinned
from maar.sim.result import Run

HEIGHT = 320.0

POINTS = 500
"""Maximum points of a line, evenly by rank: less than a pixel apart vertically."""

DECADES = 6
"""Decades on the axis: times below a millionth of the longest are drawn at its start."""


def completion(runs: Sequence[Run]) -> Figure:
    names, top = legend([run.policy for run in runs], 14.0)
    bottom = top + HEIGHT
    times = [np.sort([job.jct for job in run.jobs]) for run in runs]
    longest = max((float(t[-1]) for t in times if len(t)), default=1.0) or 1.0
    positive = [float(t[t > 0][0]) for t in times if len(t) and t[-1] > 0]
    x = Scale(max(min(positive, default=1.0), longest / 10**DECADES), longest, LEFT, WIDTH - RIGHT, log=True)
    y = Scale(0.0, 1.0, bottom, top)
    parts = [*names, *shares(top, bottom)]
    for tick in log_ticks(x.low, x.high):
        parts.append(svg.line(x(tick), top, x(tick), bottom))
        parts.append(svg.text(duration(tick), x(tick), bottom + 16, "q m"))
    parts.append(svg.text("time from submission to end, logarithmic", (LEFT + WIDTH - RIGHT) / 2, bottom + 34, "q m"))
    for i, sorted_times in enumerate(times):
        colour, dash = svg.series(i)
        count = len(sorted_times)
        points = [(x(float(sorted_times[k])), y((k + 1) / count)) for k in thinned(count, POINTS)]
        if points:
            parts.append(svg.path([(points[0][0], bottom), *points], f"l c{colour}", steps=True, dash=dash))
    title = "Completion times"
    most = max(map(len, times), default=0)
    caption = "The share of jobs that ended within a time: further left and higher is better."
    if most > POINTS:
        caption += (
            f" Each line goes through {POINTS} of {most:,} jobs, evenly by rank, the fastest and slowest included."
        )
    about = "; ".join(
        f"{run.policy}: half of the jobs within {duration(float(np.median(t)))}, all within {duration(float(t[-1]))}"
        for run, t in zip(runs, times, strict=True)
        if len(t)
    )
    return Figure("completion", title, caption, svg.drawing(WIDTH, bottom + 42, title, about, *parts, id_="completion"))
