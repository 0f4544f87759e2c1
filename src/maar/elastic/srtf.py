"""srtf: the shortest remaining time first; each job gets the size it requests, and what does not fit is passed over.

Remaining time is that at the requested size: what the job would still take if it ran now. Source: the yardstick of
Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019.
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order

NAME = "srtf"


def plan(jobs: Jobs, gpus: int, arguments: NoArguments, serve: Serve = fitting) -> Ints:
    """By priority, remaining time at the requested size, submit time and name: `requested` each, if it fits."""
    order = in_order(jobs, jobs.remaining / jobs.speed(jobs.requested))
    return give(jobs, order, jobs.requested, gpus, serve)[0]
