"""The output of `maar history` as text. Readable without colour; without a terminal nothing is wrapped."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table

from maar.cli.reports.history_view import Category, Everything, Job
from maar.cli.support.printing import apart, lines, printed, table, when
from maar.model.words import count as counted


def as_text(seen: Everything, *, detailed: bool) -> str:
    """Jobs, then categories; `detailed` adds the events of each job."""
    return printed(apart(_parts(seen, detailed)))


def _parts(seen: Everything, detailed: bool) -> Iterator[RenderableType]:
    if seen.jobs:
        yield _jobs(seen.jobs)
    if detailed:
        yield from (_life(job) for job in seen.jobs if job.events)
    for category in seen.categories:
        yield lines((_heading(category), *_basis(category)))
        yield _sizes(category)


def _jobs(jobs: tuple[Job, ...]) -> Table:
    rows = [
        {
            "job": job.job,
            "state": job.state,
            "workers": str(job.workers),
            "submitted": when(job.submitted),
            "first start": when(job.first_start),
            "ended": when(job.ended),
            "waited": "-" if job.submitted is None else _long(job.waited_seconds),
            "resizes": str(job.resizes),
            "evictions": str(job.evictions),
            "GPU hours": f"{job.gpu_hours:.1f}",
            "epochs": "-" if job.epoch is None else f"{job.epoch + 1}/{job.total_epochs or '?'}",
            "left on 1": "-" if job.remaining_seconds is None else _long(job.remaining_seconds),
        }
        for job in jobs
    ]
    return table(rows[0], (row.values() for row in rows))


def _life(job: Job) -> Table:
    rows = (
        (
            when(event.at),
            event.kind + (f": {event.how}" if event.how else ""),
            f"{event.before} -> {event.after}" if event.before != event.after else "",
        )
        for event in job.events
    )
    return table((job.job, "what", "workers"), rows)


def _heading(category: Category) -> str:
    on = f" on {category.accelerator}" if category.accelerator else ""
    count = counted(category.measurements, "measurement")
    restart = "" if category.restart_seconds is None else f", a resize costs {_long(category.restart_seconds)}"
    other = f", curve from {category.curve_from}" if category.curve_from else ""
    return f"{category.category}{on}: {count}{restart}{other}"


def _basis(category: Category) -> Iterator[str]:
    """What the curve is made from, and how well a fit describes it."""
    if not category.fit:
        return
    noise = "" if category.noise_scale is None else f", noise scale {category.noise_scale:,.0f} samples"
    yield f"  curve: {category.basis}{noise}"
    fit = category.fit
    parts = (fit.compute, "compute"), (fit.inside_nodes, "inside nodes"), (fit.between_nodes, "between nodes")
    shares = ", ".join(f"{part:.0%} {name}" for part, name in parts if part >= 0.005)
    based = f"from {counted(fit.epochs, 'epoch')} in {counted(fit.settings, 'setting')}"
    why_not = f"; not used: {fit.why_not}" if fit.why_not else ""
    yield f"  fit: error {fit.error:.0%}, {based}; largest size: {shares}{why_not}"


def _sizes(category: Category) -> Table:
    most = max((size.curve for size in category.sizes), default=1.0)
    rows = (
        (
            str(size.workers),
            str(size.epochs or "-"),
            "-" if size.epoch_seconds is None else _long(size.epoch_seconds),
            "-" if size.speedup is None else f"{size.speedup:.2f}",
            f"{size.curve:.2f}",
            "█" * max(1, round(20 * size.curve / most)),
        )
        for size in category.sizes
    )
    return table(("workers", "epochs", "median epoch", "speed-up", "curve", ""), rows)


def _long(seconds: float) -> str:
    """A duration in readable units.

    >>> _long(0.25), _long(75), _long(7300), _long(200_000)
    ('0.25 s', '75 s', '2 h 2 min', '2 d 7 h')
    """
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    hours, rest = divmod(round(seconds / 60), 60)
    return f"{hours} h {rest} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
