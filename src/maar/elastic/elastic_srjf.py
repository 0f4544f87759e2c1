"""elastic-srjf: each job gets its minimum, shortest remaining time first; then running jobs grow in turns.

Remaining time is measured on one worker, for any size. Source: Voda.
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order, round_robin

NAME = "elastic-srjf"


def plan(jobs: Jobs, gpus: int, arguments: NoArguments, serve: Serve = fitting) -> Ints:
    """Sizes as srjf gives them; then, in the same order, one more worker each, round after round, up to `max`."""
    order = in_order(jobs, jobs.remaining)
    workers, left = give(jobs, order, jobs.min, gpus, serve)
    return round_robin(jobs, order, workers, left)
