"""fifo: each job gets its minimum in the order of submission; a job that does not fit is skipped.

Source: the baseline of Voda and of most clusters.
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order

NAME = "fifo"


def plan(jobs: Jobs, gpus: int, arguments: NoArguments, serve: Serve = fitting) -> Ints:
    """By priority, submit time and name: `min` for each job that fits."""
    return give(jobs, in_order(jobs), jobs.min, gpus, serve)[0]
