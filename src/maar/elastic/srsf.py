"""srsf: the shortest remaining service first; each job gets the size it requests, and what does not fit is passed over.

Service is time multiplied by GPUs: what the job would still take at its requested size, times the GPUs of that size.
Source: the yardstick of Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019.
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order

NAME = "srsf"


def plan(jobs: Jobs, gpus: int, arguments: NoArguments, serve: Serve = fitting) -> Ints:
    """By priority, remaining GPU seconds at the requested size, submit time, name: `requested` each, if it fits."""
    seconds = jobs.remaining / jobs.speed(jobs.requested)
    order = in_order(jobs, seconds * (jobs.requested * jobs.gpus))
    return give(jobs, order, jobs.requested, gpus, serve)[0]
