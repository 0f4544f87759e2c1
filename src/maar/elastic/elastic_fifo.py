"""elastic-fifo: in the order of submission each job gets its minimum, then those that run grow by turns.

Source: Voda, whose logged plans this gives.
"""

from __future__ import annotations

import msgspec

from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import give, in_order, round_robin

NAME = "elastic-fifo"


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """None."""


def plan(jobs: Jobs, gpus: int, arguments: Arguments) -> Ints:
    """As fifo; then, in the same order, one more worker each, round after round, up to `max`."""
    order = in_order(jobs)
    workers, left = give(jobs, order, jobs.min, gpus)
    return round_robin(jobs, order, workers, left)
