"""Jobs as bars over time: a row for each job, as high as it has GPUs at that time, grey while it waits.

Each policy has a figure over the same time, with the same jobs. Of many jobs those are shown that came one after the
other when waiting was longest: there policies differ, and a sample of a long trace would be a thin diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from maar.sim.report import svg
from maar.sim.report.frame import LEFT, WIDTH, Figure, Span
from maar.sim.report.scales import Scale, duration
from maar.sim.result import JobRecord, Run
from maar.sim.trace import Trace

MOST = 120
"""Rows: as many as can be told apart on a screen."""

NEARLY = 0.95
"""The part of the jobs whose ends must be seen: one that runs for weeks would press all others together."""

NAMED = 40
"""Rows that have room for a name."""

FINEST = 0.5
"""Of a pixel: changes that are closer are averaged."""

TOP = 10.0

Steps = list[tuple[float, float]]


def bars(runs: Sequence[Run], trace: Trace) -> list[Figure]:
    """A figure for each run."""
    order = [job.name for job in sorted(trace.jobs, key=lambda job: (job.submit, job.name))]
    known = [{job.name: job for job in run.jobs} for run in runs]
    first = window([sum(jobs[name].waited for jobs in known if name in jobs) for name in order], MOST)
    scene = Scene(order[first : first + MOST], first, len(order), _span(order[first : first + MOST], known))
    largest = max((gpus for jobs in known for job in scene.of(jobs) for _, gpus in sizes(job)), default=1.0)
    return [_figure(run, i, jobs, scene, largest) for i, (run, jobs) in enumerate(zip(runs, known, strict=True))]


@dataclass(frozen=True, slots=True)
class Scene:
    """What all of the figures show."""

    names: list[str]
    first: int
    """How many jobs came before."""
    total: int
    span: Span

    def of(self, jobs: dict[str, JobRecord]) -> list[JobRecord]:
        """Those of one run that are in it."""
        return [jobs[name] for name in self.names if name in jobs]


def window(waits: Sequence[float], width: int) -> int:
    """Where so many neighbours begin whose sum is the largest; the first such place.

    >>> window([1.0, 0.0, 5.0, 5.0, 0.0], 2), window([1.0], 2)
    (2, 0)
    """
    sums = list(accumulate(waits, initial=0.0))
    places = range(max(len(waits) - width, 0) + 1)
    return max(places, key=lambda at: (sums[min(at + width, len(waits))] - sums[at], -at))


def _span(names: list[str], known: Sequence[dict[str, JobRecord]]) -> Span:
    """From the first submission until nearly all of them have ended under every policy."""
    ends = [sorted(jobs[name].end for name in names if name in jobs) for jobs in known]
    starts = [jobs[name].submit for jobs in known for name in names if name in jobs]
    start = min(starts, default=0.0)
    nearly = [end[math.ceil(NEARLY * (len(end) - 1))] for end in ends if end]
    return Span(start, max([start + 1.0, *nearly]))


def _figure(run: Run, number: int, known: dict[str, JobRecord], scene: Scene, largest: float) -> Figure:
    names, count = scene.names, len(scene.names)
    row = min(max(600.0 / max(count, 1), 6.0), 18.0)
    bottom = TOP + row * count
    colour, _ = svg.series(number)
    parts = [*scene.span.axis(TOP, bottom)]
    height = Scale(0.0, math.log2(1.0 + max(largest, 1.0)), 1.5, row - 1.0)
    for i, name in enumerate(names):
        floor = TOP + row * (i + 1)
        if count <= NAMED:
            parts.append(svg.text(_short(name), LEFT - 6, floor - row / 2 + 4, "q e"))
        if name in known:
            parts.append(svg.element("g", *_bar(known[name], floor, scene.span, height, f"f{colour}")))
    title = f"Jobs over time: {run.policy}"
    caption = " ".join(_said(scene, known, largest))
    name = f"jobs-{number + 1}"
    return Figure(name, title, caption, svg.drawing(WIDTH, bottom + 26, title, caption, *parts, id_=name))


def _said(scene: Scene, known: dict[str, JobRecord], largest: float) -> Iterable[str]:
    """What is to be seen, what not, and why."""
    count = len(scene.names)
    if count == scene.total:
        yield f"All {count:,} jobs, the first to come on top."
    else:
        yield f"Jobs {scene.first + 1:,} to {scene.first + count:,} of {scene.total:,}, the first to come on top:"
        yield f"the {count} neighbours that waited longest, all policies together. The time is counted from the first."
    yield f"A bar is as high as the job has GPUs, logarithmic, at most {largest:,.0f}. The grey line goes from its"
    yield "submission to its end: where it has no bar, the job waits. Point at a job for its numbers."
    shown = scene.of(known)
    cut = sum(job.end > scene.span.end for job in shown)
    if cut:
        yield f"{cut} of them end beyond the right edge."
    if len(shown) < count:
        yield f"{count - len(shown)} of them never ran."


def _bar(job: JobRecord, floor: float, span: Span, height: Scale, fill: str) -> Iterable[str]:
    about = f"{job.name}: {job.gpus} GPUs asked for, waited {duration(job.waited)}, ran {duration(job.ran)}"
    yield svg.title(about + (f", {job.restarts} restarts" if job.restarts else ""))
    x = span.scale()
    yield svg.line(x(job.submit), floor - 0.5, x(job.end), floor - 0.5, "w")
    points = [(at, floor - (height(math.log2(1.0 + gpus)) if gpus else 0.0)) for at, gpus in on_pixels(sizes(job), x)]
    yield svg.area(points, floor, fill, steps=True)


def sizes(job: JobRecord) -> Steps:
    """Every change of a job's GPUs; of one whose changes were not kept, those that it asked for from start to end."""
    each = job.gpus / job.workers if job.gpus else 1.0
    if not job.sizes:
        return [(job.started, each * job.workers), (job.end, 0.0)]
    return [(when, workers * each) for when, workers in job.sizes]


def on_pixels(steps: Steps, x: Scale) -> Steps:
    """The same on paper: what changes within half a pixel is drawn as its mean."""
    drawn: Steps = []
    i = 0
    while i < len(steps) - 1:
        start = x(steps[i][0])
        j = i + 1
        while j < len(steps) - 1 and x(steps[j][0]) - start < FINEST:
            j += 1
        length = steps[j][0] - steps[i][0]
        amount = sum(gpus * (steps[k + 1][0] - at) for k, (at, gpus) in enumerate(steps[i:j], i))
        drawn.append((start, amount / length if length > 0 else steps[i][1]))
        i = j
    if steps:
        drawn.append((max(x(steps[-1][0]), x(steps[0][0]) + FINEST), 0.0))
    return drawn


def _short(name: str) -> str:
    return name if len(name) <= 9 else "…" + name[-8:]
