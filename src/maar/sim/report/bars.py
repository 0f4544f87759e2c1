"""Jobs as bars over time: one row per job, whose height is its GPUs, and a grey line while it waits.

Each policy has a figure with the same jobs and the same time axis. If there are too many jobs, the figure shows
consecutive jobs where waiting was longest: policies differ most there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from maar.model.words import count as counted
from maar.sim.report import svg
from maar.sim.report.frame import LEFT, WIDTH, AxisSpan, Figure
from maar.sim.report.scales import Scale, duration
from maar.sim.result import JobRecord, Run
from maar.sim.trace import Trace

MOST = 120
"""Maximum rows: as many as can be distinguished on a screen."""

NEARLY = 0.95
"""Share of the jobs whose ends are in the figure: a job that runs for weeks would compress all others."""

NAMED = 40
"""Maximum rows with names."""

FINEST = 0.5
"""Changes closer than this many pixels are averaged."""

TOP = 10.0

Steps = list[tuple[float, float]]


def bars(runs: Sequence[Run], trace: Trace) -> list[Figure]:
    order = [job.name for job in sorted(trace.jobs, key=lambda job: (job.submit, job.name))]
    known = [{job.name: job for job in run.jobs} for run in runs]
    first = window([sum(jobs[name].waited for jobs in known if name in jobs) for name in order], MOST)
    scene = FigureScene(order[first : first + MOST], first, len(order), _span(order[first : first + MOST], known))
    largest = max((gpus for jobs in known for job in scene.of(jobs) for _, gpus in sizes(job)), default=1.0)
    return [_figure(run, i, jobs, scene, largest) for i, (run, jobs) in enumerate(zip(runs, known, strict=True))]


@dataclass(frozen=True, slots=True)
class FigureScene:
    """What all figures show."""

    names: list[str]
    first: int
    """Number of jobs before the first one shown."""
    total: int
    span: AxisSpan

    def of(self, jobs: dict[str, JobRecord]) -> list[JobRecord]:
        """The records of one run that the figure shows."""
        return [jobs[name] for name in self.names if name in jobs]


def window(waits: Sequence[float], width: int) -> int:
    """The start of the `width` consecutive values with the largest sum; the first if several are equal.

    >>> window([1.0, 0.0, 5.0, 5.0, 0.0], 2), window([1.0], 2)
    (2, 0)
    """
    sums = list(accumulate(waits, initial=0.0))
    places = range(max(len(waits) - width, 0) + 1)
    return max(places, key=lambda at: (sums[min(at + width, len(waits))] - sums[at], -at))


def _span(names: list[str], known: Sequence[dict[str, JobRecord]]) -> AxisSpan:
    """The time from the first submission until `NEARLY` all jobs have ended under every policy."""
    ends = [sorted(jobs[name].end for name in names if name in jobs) for jobs in known]
    starts = [jobs[name].submit for jobs in known for name in names if name in jobs]
    start = min(starts, default=0.0)
    nearly = [end[math.ceil(NEARLY * (len(end) - 1))] for end in ends if end]
    return AxisSpan(start, max([start + 1.0, *nearly]))


def _figure(run: Run, number: int, known: dict[str, JobRecord], scene: FigureScene, largest: float) -> Figure:
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
    caption = " ".join(_caption(scene, known, largest))
    name = f"jobs-{number + 1}"
    return Figure(name, title, caption, svg.drawing(WIDTH, bottom + 26, title, caption, *parts, id_=name))


def _caption(scene: FigureScene, known: dict[str, JobRecord], largest: float) -> Iterable[str]:
    count = len(scene.names)
    if count == scene.total:
        yield f"All {count:,} jobs, in order of submission."
    else:
        yield f"Jobs {scene.first + 1:,} to {scene.first + count:,} of {scene.total:,}, in order of submission:"
        yield f"the {count} consecutive jobs that waited longest under all policies. Time counts from the first."
    yield f"The height of a bar is the job's GPUs, logarithmic, at most {largest:,.0f}. The grey line goes from its"
    yield "submission to its end: without a bar, the job waits. Point at a job for its numbers."
    shown = scene.of(known)
    cut = sum(job.end > scene.span.end for job in shown)
    if cut:
        yield f"{cut} of them end beyond the right edge."
    if len(shown) < count:
        yield f"{count - len(shown)} of them never ran."


def _bar(job: JobRecord, floor: float, span: AxisSpan, height: Scale, fill: str) -> Iterable[str]:
    about = f"{job.name}: {counted(job.gpus, 'GPU')} asked for, waited {duration(job.waited)}, ran {duration(job.ran)}"
    yield svg.title(about + (f", {counted(job.restarts, 'restart')}" if job.restarts else ""))
    x = span.scale()
    yield svg.line(x(job.submit), floor - 0.5, x(job.end), floor - 0.5, "w")
    points = [(at, floor - (height(math.log2(1.0 + gpus)) if gpus else 0.0)) for at, gpus in on_pixels(sizes(job), x)]
    yield svg.area(points, floor, fill, steps=True)


def sizes(job: JobRecord) -> Steps:
    """Every change of a job's GPUs; without recorded changes, its requested GPUs from start to end."""
    each = job.gpus / job.workers if job.gpus else 1.0
    if not job.sizes:
        return [(job.started, each * job.workers), (job.end, 0.0)]
    return [(when, workers * each) for when, workers in job.sizes]


def on_pixels(steps: Steps, x: Scale) -> Steps:
    """The steps at their positions; changes closer than `FINEST` become their mean."""
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
