"""philly: traces with `timestamp,duration,num_gpus` or other common names of these columns.

Covers Microsoft's Philly traces as simulators publish them, and similar traces (Helios). Jobs are rigid, with one
worker per GPU. Times are seconds or dates, which become seconds since 1970. Unknown columns are ignored.
"""

from __future__ import annotations

from datetime import UTC, datetime

from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.names import padded
from maar.sim.traces.rows import Row, Rows
from maar.sim.traces.source import Source

NAME = "philly"

NEEDS = ("timestamp", "duration", "num_gpus")
OTHER_NAMES = {
    **dict.fromkeys(("submit_time", "submitted_time", "arrival_time", "arrival", "submit", "time"), "timestamp"),
    **dict.fromkeys(("run_time", "runtime", "job_duration", "service_time"), "duration"),
    **dict.fromkeys(("num_gpu", "gpus", "gpu_num", "n_gpus", "gpu_count", "gpu"), "num_gpus"),
    **dict.fromkeys(("job_id", "jobid", "job_name", "id"), "name"),
    **dict.fromkeys(("vc", "virtual_cluster"), "queue"),
    "model_name": "model",
}


def recognises(source: Source) -> bool:
    return set(NEEDS) <= {OTHER_NAMES.get(column, column) for column in source.columns}


def read(source: Source) -> Trace:
    rows = Rows(source)
    lines = list(rows.csv(NEEDS, OTHER_NAMES))
    names = padded([row.text("name", f"job-{i:0{len(str(len(lines)))}}") for i, row in enumerate(lines, 1)])
    for row, name in zip(lines, names, strict=True):
        gpus = row.whole("num_gpus", 1)
        rows.add(
            row,
            TraceJob(
                name=name,
                submit=_moment(row),
                duration=row.number("duration", 0.0),
                gpus=gpus,
                workers=gpus,
                min=gpus,
                max=gpus,
                queue=row.text("queue", "default"),
                priority=row.whole("priority", None, 0),
                model=row.text("model", ""),
            ),
        )
    return rows.trace()


def _moment(row: Row) -> float:
    """The timestamp in seconds; a date without a time zone is UTC."""
    text = str(row.cells.get("timestamp", "")).strip()
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or text.isdecimal():
        return row.number("timestamp")
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()
