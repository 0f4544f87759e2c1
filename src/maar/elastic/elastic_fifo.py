"""elastic-fifo: each job gets its minimum in the order of submission, then running jobs grow in turns.

Source: Voda; this reproduces its logged plans.
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order, round_robin

NAME = "elastic-fifo"


def plan(jobs: Jobs, gpus: int, arguments: NoArguments, serve: Serve = fitting) -> Ints:
    """Sizes as fifo gives them; then, in the same order, one more worker each, round after round, up to `max`."""
    order = in_order(jobs)
    workers, left = give(jobs, order, jobs.min, gpus, serve)
    return round_robin(jobs, order, workers, left)
