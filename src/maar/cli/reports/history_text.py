"""The output of `maar history` as text. Readable without colour; without a terminal nothing is wrapped."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.table import Table

from maar.cli.reports.history_view import Category, Everything, Job
from maar.cli.support.printing import apart, lines, printed, when
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


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _jobs(jobs: tuple[Job, ...]) -> Table:
    table = _table(
        *(
            "job",
            "state",
            "workers",
            "submitted",
            "first start",
            "ended",
            "waited",
            "resizes",
            "evictions",
            "GPU hours",
            "epochs",
            "left on 1",
        )
    )
    for job in jobs:
        done = "-" if job.epoch is None else f"{job.epoch + 1}/{job.total_epochs or '?'}"
        table.add_row(
            job.job,
            job.state,
            str(job.workers),
            when(job.submitted),
            when(job.first_start),
            when(job.ended),
            "-" if job.submitted is None else _long(job.waited_seconds),
            str(job.resizes),
            str(job.evictions),
            f"{job.gpu_hours:.1f}",
            done,
            "-" if job.remaining_seconds is None else _long(job.remaining_seconds),
        )
    return table


def _life(job: Job) -> Table:
    table = _table(job.job, "what", "workers")
    for event in job.events:
        workers = f"{event.before} -> {event.after}" if event.before != event.after else ""
        table.add_row(when(event.at), event.kind + (f": {event.how}" if event.how else ""), workers)
    return table


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
    table = _table("workers", "epochs", "median epoch", "speed-up", "curve", "")
    most = max((size.curve for size in category.sizes), default=1.0)
    for size in category.sizes:
        table.add_row(
            str(size.workers),
            str(size.epochs or "-"),
            "-" if size.epoch_seconds is None else _long(size.epoch_seconds),
            "-" if size.speedup is None else f"{size.speedup:.2f}",
            f"{size.curve:.2f}",
            "█" * max(1, round(20 * size.curve / most)),
        )
    return table


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
