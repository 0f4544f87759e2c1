"""The output of `maar trace describe` as text. Readable without colour; without a terminal nothing is wrapped."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.table import Table

from maar.cli.support.printing import apart, printed
from maar.model.words import count
from maar.sim.describe import Description
from maar.sim.report.scales import duration, percent

BAR = 30
"""Characters of the longest bar. Tuned by hand."""

MOST = 12
"""Maximum rows of a table; the rest is one row."""


def as_text(found: Description) -> str:
    """The numbers, then tables of sizes and queues."""
    return printed(apart(_parts(found)))


def _parts(found: Description) -> Iterator[RenderableType]:
    yield found.source
    yield _numbers(found)
    yield _shares("GPUs", [(str(s.gpus), s.jobs, s.gpu_hours) for s in found.sizes], found)
    if len(found.queues) > 1:
        yield _shares("queue", [(q.queue, q.jobs, q.gpu_hours) for q in found.queues], found)
    for note in found.notes:
        yield f"note: {note}"


def _numbers(found: Description) -> Table:
    table = Table.grid(padding=(0, 2))
    rate = "all at once" if found.jobs_per_hour is None else f"{found.jobs_per_hour:.3g} per hour"
    table.add_row("jobs", f"{found.jobs:,}, {rate}, {found.busiest_hour:,} in the busiest hour")
    table.add_row("span", duration(found.span))
    named = {"p0": "shortest", "p50": "median", "p90": "p90", "p99": "p99", "p100": "longest"}
    times = ", ".join(f"{name} {duration(found.durations[p])}" for p, name in named.items())
    table.add_row("durations", f"mean {duration(found.duration_mean)}, {times}")
    table.add_row("GPU hours", f"{found.gpu_hours:,.0f}")
    share = found.elastic_gpu_hours / found.gpu_hours if found.gpu_hours else 0.0
    table.add_row(
        "elastic",
        f"{count(found.elastic_jobs, 'job')} ({percent(found.elastic_jobs / found.jobs)}), "
        f"{percent(share)} of the GPU hours",
    )
    if len(found.priorities) > 1:
        table.add_row("priorities", ", ".join(f"{p}: {n:,}" for p, n in found.priorities.items()))
    if found.models:
        table.add_row("models", ", ".join(f"{model}: {n:,}" for model, n in found.models.items()))
    if found.gpus is not None:
        table.add_row(f"on {count(found.gpus, 'GPU')}", _on(found))
    return table


def _on(found: Description) -> str:
    load = "no load: all jobs arrive at once" if found.load is None else f"a load of {percent(found.load)}"
    if not found.too_large:
        return load
    return f"{load}; " + count(found.too_large, "job is too large", "jobs are too large")


def _shares(name: str, rows: list[tuple[str, int, float]], found: Description) -> Table:
    table = Table(name, "jobs", "", "GPU hours", "", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for label, jobs, hours in rows[:MOST]:
        table.add_row(
            label, f"{jobs:,}", _bar(jobs / found.jobs), f"{hours:,.0f}", _bar(hours / (found.gpu_hours or 1))
        )
    rest = rows[MOST:]
    if rest:
        table.add_row(
            count(len(rest), "other"), f"{sum(r[1] for r in rest):,}", "", f"{sum(r[2] for r in rest):,.0f}", ""
        )
    return table


def _bar(part: float) -> str:
    return "█" * max(round(BAR * part), 1 if part else 0)
