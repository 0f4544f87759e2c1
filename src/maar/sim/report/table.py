"""The HTML table with the numbers of all runs; the best value of each column is bold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from maar.sim.report.scales import duration, percent
from maar.sim.result import Run, Summary


@dataclass(frozen=True, slots=True)
class Column:
    """One number of a run."""

    name: str
    value: Callable[[Summary], float]
    words: Callable[[float], str]
    best: Callable[[Sequence[float]], float] | None = min
    about: str = ""


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _ratio(value: float) -> str:
    return f"{value:.2f}"


COLUMNS = (
    Column("jobs", lambda s: s.jobs, _count, None, "that ended"),
    Column("mean", lambda s: s.avg_jct, duration, about="completion time: from submission to end"),
    Column("median", lambda s: s.p50_jct, duration, about="completion time"),
    Column("p95", lambda s: s.p95_jct, duration, about="completion time"),
    Column("p99", lambda s: s.p99_jct, duration, about="completion time"),
    Column("waited", lambda s: s.avg_wait, duration, about="mean time without workers"),
    Column("makespan", lambda s: s.makespan, duration, about="from the first submission to the last end"),
    Column("GPUs in use", lambda s: s.gpu_utilisation, percent, max, "of all, over the makespan"),
    Column("restarts", lambda s: s.restarts, _count, about="resized, stopped and started again, moved"),
    Column("mean ratio", lambda s: s.mean_ratio, _ratio, about="finish-time ratio: 1 is a fair share, less is better"),
    Column("worst ratio", lambda s: s.worst_ratio, _ratio, about="the largest finish-time ratio of any job"),
)


def table(runs: Sequence[Run]) -> str:
    """The table. The tooltip of a number is its exact value."""
    summaries = [run.summary for run in runs]
    head = "".join(f'<th scope="col" title="{escape(c.about)}">{escape(c.name)}</th>' for c in COLUMNS)
    best = [c.best([c.value(s) for s in summaries]) if c.best and len(runs) > 1 else None for c in COLUMNS]
    rows = []
    for summary in summaries:
        cells = [_cell(column, column.value(summary), top) for column, top in zip(COLUMNS, best, strict=True)]
        rows.append(f'<tr><th scope="row">{escape(summary.policy)}</th>{"".join(cells)}</tr>')
    return (
        f'<div class="wide"><table><thead><tr><th scope="col">policy</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(column: Column, value: float, best: float | None) -> str:
    words = escape(column.words(value))
    return f'<td title="{value:.6g}">{f"<strong>{words}</strong>" if value == best else words}</td>'
