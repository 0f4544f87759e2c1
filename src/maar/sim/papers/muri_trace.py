"""muri: the CSV of Muri's simulator (SIGCOMM 2022), whose published results Maar reproduces.

Times in the file are in milliseconds. Jobs are rigid, with one worker per GPU, and keep the order of the file. The
columns about resources within an iteration, the batch size and the interval are ignored.
"""

from __future__ import annotations

from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.names import padded
from maar.sim.traces.rows import Rows
from maar.sim.traces.source import Source

NAME = "muri"

NEEDS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "iteration_time")
MILLI = 1000.0


def recognises(source: Source) -> bool:
    return set(NEEDS) <= set(source.columns)


def read(source: Source) -> Trace:
    rows = Rows(source)
    lines = list(rows.csv(NEEDS))
    for row, name in zip(lines, padded([row.text("job_id") for row in lines]), strict=True):
        gpus = row.whole("num_gpu", 1)
        rows.add(
            row,
            TraceJob(
                name=name,
                submit=row.number("submit_time", scale=MILLI),
                duration=row.number("duration", 0.0, MILLI),
                gpus=gpus,
                workers=gpus,
                min=gpus,
                max=gpus,
                priority=row.whole("priority", None, 0),
                model=row.text("model_name"),
                iterations=row.number("iterations", 0.0),
                iteration_time=row.number("iteration_time", 0.0, MILLI),
            ),
            "job_id",
        )
    return rows.trace()
