"""What all figures share: size, time axis, ticks, grid and legend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from maar.sim.report import svg
from maar.sim.report.scales import Scale, duration, time_ticks
from maar.sim.result import Run

WIDTH = 960.0
LEFT = 56.0
RIGHT = 16.0


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing and its caption."""

    name: str
    """The name of its file and its anchor in the page."""
    title: str
    caption: str
    drawing: str


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """The time span of all runs of a comparison, so that their figures have the same axis."""

    start: float
    """The first submission, which is 0 on the axis."""
    end: float

    @classmethod
    def of(cls, runs: Sequence[Run]) -> AxisSpan:
        """The frame from the first submission to the last end."""
        starts = [job.submit for run in runs for job in run.jobs]
        ends = [job.end for run in runs for job in run.jobs]
        start = min(starts, default=0.0)
        return cls(start, max(max(ends, default=0.0), start + 1.0))

    @property
    def length(self) -> float:
        return self.end - self.start

    def scale(self) -> Scale:
        return Scale(self.start, self.end, LEFT, WIDTH - RIGHT)

    def axis(self, top: float, bottom: float) -> Iterable[str]:
        """Ticks at the bottom, with lines to the top."""
        x = self.scale()
        for tick in time_ticks(self.length):
            at = x(self.start + tick)
            yield svg.line(at, top, at, bottom)
            yield svg.text(duration(tick), at, bottom + 16, "q m")


def shares(top: float, bottom: float, parts: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0)) -> Iterable[str]:
    """An axis from 0 to 100 %, with horizontal lines."""
    y = Scale(0.0, 1.0, bottom, top)
    for part in parts:
        yield svg.line(LEFT, y(part), WIDTH - RIGHT, y(part))
        yield svg.text(f"{100 * part:.0f} %", LEFT - 6, y(part) + 4, "q e")


def legend(names: Sequence[str], top: float) -> tuple[list[str], float]:
    """Names with their lines, in rows, and the bottom of the last row."""
    parts: list[str] = []
    x, y = LEFT, top
    for i, name in enumerate(names):
        width = 44.0 + 7.2 * len(name)
        if x + width > WIDTH - RIGHT and x > LEFT:
            x, y = LEFT, y + 18.0
        colour, dash = svg.series(i)
        parts.append(svg.path([(x, y), (x + 24, y)], f"l c{colour}", dash=dash))
        parts.append(svg.text(name, x + 30, y + 4))
        x += width
    return parts, y + 14.0
