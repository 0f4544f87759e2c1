"""The report page: a description of the trace, the table and the figures, in one HTML file.

The page has no scripts and no fonts and makes no requests, as its content security policy enforces.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from maar.model.words import count as counted
from maar.sim.describe import describe
from maar.sim.report.bars import bars
from maar.sim.report.completion import completion
from maar.sim.report.frame import AxisSpan, Figure
from maar.sim.report.scales import duration, percent
from maar.sim.report.svg import STYLE, alone
from maar.sim.report.table import table
from maar.sim.report.usage import usage
from maar.sim.result import Run
from maar.sim.trace import Trace

PAGE_STYLE = """
html{background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif;color-scheme:light dark}
body{max-width:66rem;margin:2rem auto;padding:0 1rem}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.5rem}
figure{margin:0}figcaption,.quiet{color:var(--quiet);font-size:.85rem}.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.85rem;width:100%}
th,td{padding:.3rem .45rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child{text-align:left}thead th{color:var(--quiet);font-weight:600}tbody tr:hover{background:var(--panel)}
"""


def write_report(runs: Sequence[Run], trace: Trace, path: Path) -> list[Path]:
    """Write the page to a file, or the page and each figure as SVG to a folder (a name without extension).

    Returns the written files.
    """
    figures = draw(runs, trace)
    if path.suffix and not path.is_dir():
        path.write_text(page(runs, trace, figures), encoding="utf-8")
        return [path]
    path.mkdir(parents=True, exist_ok=True)
    written = [path / "index.html"]
    written[0].write_text(page(runs, trace, figures), encoding="utf-8")
    for figure in figures:
        written.append(path / f"{figure.name}.svg")
        written[-1].write_text(alone(figure.drawing), encoding="utf-8")
    return written


def draw(runs: Sequence[Run], trace: Trace) -> list[Figure]:
    span = AxisSpan.of(runs)
    return [completion(runs), usage(runs, span), *bars(runs, trace)]


def page(runs: Sequence[Run], trace: Trace, figures: Sequence[Figure]) -> str:
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>maar simulate: {escape(trace.source)}</title><style>{STYLE}{PAGE_STYLE}</style></head>",
        f"<body><main><h1>{escape(_heading(runs))}</h1>{_about(runs, trace)}",
        f'<h2 id="numbers">Numbers</h2>{table(runs)}<p class="quiet">{_table_notes(runs)}</p>',
        *(_section(figure) for figure in figures),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _heading(runs: Sequence[Run]) -> str:
    return f"{', '.join(run.policy for run in runs)} on {counted(runs[0].gpus, 'GPU')}" if runs else "No runs"


def _about(runs: Sequence[Run], trace: Trace) -> str:
    if not trace.jobs:
        return "<p>The trace has no jobs.</p>"
    found = describe(trace, runs[0].gpus if runs else None)
    load = f", a load of {percent(found.load)}" if found.load is not None else ""
    text = (
        f"{trace.source}: {counted(found.jobs, 'job')} in {duration(found.span)}, "
        f"{found.gpu_hours:,.0f} GPU hours{load}; "
        f"half of them run for at most {duration(found.durations['p50'])}, "
        f"{percent(found.elastic_jobs / found.jobs)} are elastic."
    )
    notes = "".join(f'<p class="quiet">{escape(note)}</p>' for note in trace.notes)
    return f"<p>{escape(text)}</p>{notes}"


def _table_notes(runs: Sequence[Run]) -> str:
    text = "Bold: the best of the column." if len(runs) > 1 else ""
    for run in runs:
        if run.unfinished:
            jobs = counted(len(run.unfinished), "job")
            text += f" Under {escape(run.policy)} {jobs} did not end; they are not counted."
    return text


def _section(figure: Figure) -> str:
    return (
        f'<section id="{figure.name}"><h2>{escape(figure.title)}</h2>'
        f"<figure>{figure.drawing}<figcaption>{escape(figure.caption)}</figcaption></figure></section>"
    )
