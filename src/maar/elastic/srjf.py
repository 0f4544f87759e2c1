"""srjf: each job gets its minimum, shortest remaining time first; a job that does not fit is skipped.

Remaining time is measured on one worker, for any size. Source: Voda.
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order

NAME = "srjf"


def plan(jobs: Jobs, gpus: int, arguments: NoArguments, serve: Serve = fitting) -> Ints:
    """By priority, remaining time, submit time and name: `min` for each job that fits."""
    return give(jobs, in_order(jobs, jobs.remaining), jobs.min, gpus, serve)[0]
