"""fifo: in the order of submission each job gets its minimum; a job that does not fit is passed over.

Source: the baseline of Voda and of most clusters.
"""

from __future__ import annotations

import msgspec

from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import give, in_order

NAME = "fifo"


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """None."""


def plan(jobs: Jobs, gpus: int, arguments: Arguments) -> Ints:
    """By priority, submit time and name: `min` each to whatever fits."""
    return give(jobs, in_order(jobs), jobs.min, gpus)[0]
