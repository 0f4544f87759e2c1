"""srjf: the shortest remaining job first; each gets its minimum, and a job that does not fit is passed over.

Remaining time is that on one worker, whatever size the job has. Source: Voda.
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order

NAME = "srjf"


def plan(jobs: Jobs, gpus: int, arguments: NoArguments, serve: Serve = fitting) -> Ints:
    """By priority, remaining time, submit time and name: `min` each to whatever fits."""
    return give(jobs, in_order(jobs, jobs.remaining), jobs.min, gpus, serve)[0]
