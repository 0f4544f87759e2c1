"""maar: Maar's own format, CSV or JSON lines, with all fields of a trace.

Columns may be in any order; only `name`, `submit` and `duration` are required. Writing and reading a trace gives the
same trace, to the last digit. docs/traces.md explains the columns.
"""

from __future__ import annotations

import re

import msgspec

from maar.elastic.speedup import curve
from maar.model.words import unknown
from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.curves import CLASSES, Points
from maar.sim.traces.rows import Row, Rows
from maar.sim.traces.source import Source

NAME = "maar"

NEEDS = ("name", "submit", "duration")
ALWAYS = ("name", "submit", "duration", "workers", "gpus_per_worker", "min", "max", "queue", "priority")
SOMETIMES = ("model", "speedup", "iterations", "iteration_time", "epochs", "cpu", "memory")
KNOWN = (*ALWAYS, *SOMETIMES)
READ = (*KNOWN, "gang")
LINEAR = "linear"
"""The speed-up of a job that does not use the curve of its model class."""

_SPECIAL = re.compile(r'[,"\r\n]')
_POINT = re.compile(r"(\d{1,9}):(\S+)", re.ASCII)


def recognises(source: Source) -> bool:
    """Whether the first line is a JSON object or a header with the required columns."""
    return source.first.startswith("{") or set(NEEDS) <= set(source.columns)


def read(source: Source) -> Trace:
    rows = Rows(source)
    as_json = source.first.startswith("{")
    for row in rows.json_lines() if as_json else rows.csv(NEEDS, known=READ):
        if as_json:
            for key in sorted(row.cells.keys() - set(READ)):
                row.problem(unknown("column", key, READ))
        rows.add(row, _job(row))
    return rows.trace()


def _job(row: Row) -> TraceJob:
    workers = row.whole("workers", 1, 1)
    per_worker = row.whole("gpus_per_worker", 0, 1)
    gang = row.whole("gang", 1, workers)
    least, most = row.whole("min", 1, gang), row.whole("max", 1, workers)
    for column, count in (("gang", gang), ("min", least)):
        if row.has(column) and count > workers:
            row.wrong(column, f"at most `workers` ({workers})", count)
    if most < workers:
        row.wrong("max", f"at least `workers` ({workers})", most)
    model = row.text("model", "")
    return TraceJob(
        name=row.text("name"),
        submit=row.number("submit"),
        duration=row.number("duration", 0.0),
        gpus=workers * per_worker,
        workers=workers,
        gpus_per_worker=per_worker,
        min=least,
        max=most,
        queue=row.text("queue", "default"),
        priority=row.whole("priority", None, 0),
        model=model,
        speedup=_speedup(row) if row.has("speedup") else CLASSES.get(model, ()),
        iterations=row.maybe("iterations", 0.0),
        iteration_time=row.maybe("iteration_time", 0.0),
        epochs=row.whole("epochs", 1) if row.has("epochs") else None,
        cpu=row.maybe("cpu", 0.0),
        memory=row.whole("memory", 0, most=2**60) if row.has("memory") else None,
    )


def _speedup(row: Row) -> Points:
    """Points as `1:1 2:1.9 4:3.5`, or in JSON as an object."""
    value = row.cells["speedup"]
    if value == LINEAR:
        return ()
    try:
        if isinstance(value, dict):
            found = {int(workers): float(speed) for workers, speed in value.items()}
        else:
            matches = [_POINT.fullmatch(part) for part in str(value).split()]
            found = {int(m[1]): float(m[2]) for m in matches if m is not None}
            if None in matches or len(found) < len(matches):
                raise ValueError("not points")
        curve(found)
    except (ValueError, TypeError):
        row.wrong("speedup", "points such as `1:1 2:1.9 4:3.5` (workers:speed-up) or `linear`", value)
        return ()
    return tuple(sorted(found.items()))


def write_csv(trace: Trace, note: str = "") -> str:
    """A trace as CSV, without columns that no job needs. Lines of `note` come first, each after `#`."""
    lines = [_cells(job) for job in trace.jobs]
    columns = [*ALWAYS, *(column for column in SOMETIMES if any(column in line for line in lines))]
    rows = [columns, *([line.get(column, "") for column in columns] for line in lines)]
    notes = [f"# {line}" for line in note.splitlines()]
    return "".join(f"{line}\n" for line in (*notes, *(",".join(map(_quoted, row)) for row in rows)))


def _quoted(cell: str) -> str:
    """A cell in CSV. The csv module does not quote a lone carriage return, but reads it as a new line."""
    return '"' + cell.replace('"', '""') + '"' if _SPECIAL.search(cell) else cell


def write_json_lines(trace: Trace) -> str:
    """A trace as JSON lines, without empty fields."""
    lines = [msgspec.json.encode(_fields(job)).decode() for job in trace.jobs]
    return "".join(f"{line}\n" for line in lines)


def _fields(job: TraceJob) -> dict[str, object]:
    """The fields of a job that a reader cannot infer."""
    fields: dict[str, object] = {
        name: value for name in KNOWN if name != "speedup" and (value := getattr(job, name)) not in (None, "")
    }
    if job.speedup != CLASSES.get(job.model, ()):
        fields["speedup"] = {str(n): speed for n, speed in job.speedup} if job.speedup else LINEAR
    return fields


def _cells(job: TraceJob) -> dict[str, str]:
    fields = _fields(job)
    if job.speedup and "speedup" in fields:
        fields["speedup"] = " ".join(f"{n}:{_plain(speed)}" for n, speed in job.speedup)
    return {name: _plain(value) if isinstance(value, float) else str(value) for name, value in fields.items()}


def _plain(value: float) -> str:
    """A number that reads back exactly; an integer has no decimal point."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
