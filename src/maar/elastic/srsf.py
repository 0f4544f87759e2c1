"""srsf: each job gets its requested size, shortest remaining service first; a job that does not fit is skipped.

Service is time multiplied by GPUs: the remaining time at the requested size, times its GPUs. Source: a baseline in Gu
et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019.
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order

NAME = "srsf"


def plan(jobs: Jobs, gpus: int, arguments: NoArguments, serve: Serve = fitting) -> Ints:
    """By priority, remaining GPU seconds at the requested size, submit time and name: `requested`, if it fits."""
    seconds = jobs.remaining / jobs.speed(jobs.requested)
    order = in_order(jobs, seconds * (jobs.requested * jobs.gpus))
    return give(jobs, order, jobs.requested, gpus, serve)[0]
