"""srjf: the shortest remaining job first; each gets its minimum, and a job that does not fit is passed over.

Remaining time is that on one worker, whatever size the job has. Source: Voda.
"""

from __future__ import annotations

import msgspec

from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import give, in_order

NAME = "srjf"


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """None."""


def plan(jobs: Jobs, gpus: int, arguments: Arguments) -> Ints:
    """By priority, remaining time, submit time and name: `min` each to whatever fits."""
    return give(jobs, in_order(jobs, jobs.remaining), jobs.min, gpus)[0]
