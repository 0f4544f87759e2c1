"""fifo: in the order of submission each job gets its minimum; a job that does not fit is passed over.

Source: the baseline of Voda and of most clusters.
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order

NAME = "fifo"


def plan(jobs: Jobs, gpus: int, arguments: NoArguments, serve: Serve = fitting) -> Ints:
    """By priority, submit time and name: `min` each to whatever fits."""
    return give(jobs, in_order(jobs), jobs.min, gpus, serve)[0]
