"""srtf: each job gets its requested size, shortest remaining time first; a job that does not fit is skipped.

Remaining time is measured at the requested size. Source: a baseline in Gu et al., "Tiresias: A GPU Cluster Manager for
Distributed Deep Learning", NSDI 2019.
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order

NAME = "srtf"


def plan(jobs: Jobs, gpus: int, arguments: NoArguments, serve: Serve = fitting) -> Ints:
    """By priority, remaining time at the requested size, submit time and name: `requested`, if it fits."""
    order = in_order(jobs, jobs.remaining / jobs.speed(jobs.requested))
    return give(jobs, order, jobs.requested, gpus, serve)[0]
