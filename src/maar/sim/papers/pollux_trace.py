"""pollux: the workloads of Pollux's simulator (OSDI 2021): submission times and applications, without durations.

How long a job takes depends on its GPUs and on its progress: the model `rates` has a table of that. The batch size is
ignored.
"""

from __future__ import annotations

from msgspec.structs import replace

from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.rows import Rows
from maar.sim.traces.source import Source

NAME = "pollux"

NEEDS = ("name", "time", "application", "num_replicas")
NOTE = "the trace has no durations: it runs with the model `rates` only"


def recognises(source: Source) -> bool:
    return set(NEEDS) <= set(source.columns)


def read(source: Source) -> Trace:
    rows = Rows(source)
    for row in rows.csv(NEEDS):
        gpus = row.whole("num_replicas", 1)
        rows.add(
            row,
            TraceJob(
                name=row.text("name"),
                submit=row.number("time"),
                duration=0.0,
                gpus=gpus,
                workers=gpus,
                min=1,
                max=gpus,
                model=row.text("application"),
            ),
        )
    return replace(rows.trace(), notes=(NOTE,))
