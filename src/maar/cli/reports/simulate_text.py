"""The output of `maar simulate`: a table, JSON, the outcome of each job, and progress bars on a terminal."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO

import msgspec
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from maar.cli.support.output import escaped
from maar.cli.support.printing import UNWRAPPED, printed
from maar.model.words import count
from maar.sim.compare import ComparedRun, Watcher
from maar.sim.report.scales import duration, percent
from maar.sim.result import JobRecord, Run
from maar.sim.trace import Trace

COLUMNS = ("mean", "median", "p95", "p99", "waited", "makespan", "GPUs in use", "restarts", "ratio", "worst")
NAME = 32
"""Maximum characters of a name on a narrow terminal. Tuned by hand."""
BAR = 40
"""Maximum characters of a progress bar. Tuned by hand."""
FIELDS = tuple(f for f in JobRecord.__struct_fields__ if f != "sizes")


def as_json(runs: Sequence[Run]) -> str:
    """The runs in the given order, in a stable format for scripts."""
    data = msgspec.json.encode({"runs": [run.summary for run in runs]})
    return msgspec.json.format(data, indent=2).decode() + "\n"


def as_text(runs: Sequence[Run], trace: Trace) -> str:
    what = f"{trace.source}: {count(len(trace.jobs), 'job')} on {count(runs[0].gpus, 'GPU')}"
    words = "mean to p99: time from submission to end; ratio, worst: that time divided by the time with a fair share"
    return printed([what, "", Comparison(runs), words])


class Comparison:
    """All columns in one table, or in several tables on a narrow screen."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        left: Sequence[str] = COLUMNS
        while left:
            fit = len(left)
            while fit > 1 and self._width(console, left[:fit]) > options.max_width:
                fit -= 1
            yield self._table(left[:fit])
            yield ""
            left = left[fit:]

    def _width(self, console: Console, columns: Sequence[str]) -> int:
        options = console.options.update(width=UNWRAPPED)
        return console.measure(self._table(columns), options=options).maximum

    def _table(self, columns: Sequence[str]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column("policy", overflow="fold", max_width=NAME if columns != COLUMNS else None)
        for column in columns:
            table.add_column(column, justify="right", no_wrap=True)
        for run in self._runs:
            cells = dict(zip(COLUMNS, _cells(run), strict=True))
            table.add_row(run.policy, *(cells[column] for column in columns))
        return table


def _cells(run: Run) -> tuple[str, ...]:
    s = run.summary
    times = (s.avg_jct, s.p50_jct, s.p95_jct, s.p99_jct, s.avg_wait, s.makespan)
    shares = (percent(s.gpu_utilisation), f"{s.restarts:,}", f"{s.mean_ratio:.2f}", f"{s.worst_ratio:.1f}")
    return (*map(duration, times), *shares)


def jobs_text(runs: Sequence[Run], lines: bool) -> str:
    """Every job of every run, as CSV, or as JSON lines that include every change of size."""
    if lines:
        rows = ({"policy": run.policy, **msgspec.to_builtins(job)} for run in runs for job in run.jobs)
        return "".join(msgspec.json.encode(row).decode() + "\n" for row in rows)
    out = StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(("policy", *FIELDS))
    for run in runs:
        table.writerows((run.policy, *(getattr(job, field) for field in FIELDS)) for job in run.jobs)
    return out.getvalue()


@contextmanager
def watching(entries: Sequence[ComparedRun], jobs: int) -> Iterator[Watcher | None]:
    """One progress bar per run with the remaining time; nothing if standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    console = Console(stderr=True)
    names = [name if len(name) <= NAME else "…" + name[1 - NAME :] for name in (escaped(e.name) for e in entries)]
    others = max(map(len, names)) + 2 * len(str(jobs)) + len("/ 0:00:00") + 3
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(max(min(BAR, console.width - others), 1)),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bars = [progress.add_task(name, total=jobs, start=False) for name in names]

        def watch(done: Sequence[int]) -> None:
            for bar, ended in zip(bars, done, strict=True):
                if ended and not progress.tasks[bar].started:
                    progress.start_task(bar)
                progress.update(bar, completed=ended)

        yield watch
