"""tiresias: jobs with the least attained service go first, in a few queues; each gets its requested size, or nothing.

Source: Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019 (discretised
two-dimensional least attained service), with Voda's numbers.

The queue of a job is computed, not stored: GPU seconds of its whole life give the queue, and a wait of `knob` times its
last run returns it to the first queue. Both change with time alone, so `wake_after` says when.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from typing import Annotated

import msgspec
import numpy as np

from maar.elastic.jobs import Ints, Jobs
from maar.elastic.order import Serve, fitting, give, in_order, is_promoted
from maar.elastic.speedup import Floats

NAME = "tiresias"

LATER = 1e-3
"""Seconds added after a threshold, so that rounding of clocks cannot hide that it is passed. Tuned by hand."""

Threshold = Annotated[float, msgspec.Meta(gt=0, le=1e15)]


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    thresholds: Annotated[tuple[Threshold, ...], msgspec.Meta(description="rising GPU seconds, e.g. `3600, 36000`")] = (
        3600.0,
    )
    """GPU seconds after which a job is in the next queue. One hour is Voda's value."""
    queues: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    """The number of queues: one more than thresholds."""
    knob: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 8.0
    """A job is promoted after a wait of this many times its last run. 8 is the value of Voda and of the paper."""

    def __post_init__(self) -> None:
        thresholds, queues = self.thresholds, self.queues
        if any(b <= a for a, b in pairwise(thresholds)):
            raise ValueError("thresholds: expected rising GPU seconds")
        if queues is not None and queues != len(thresholds) + 1:
            between = f"{queues} queues have {queues - 1} thresholds between them"
            raise ValueError(f"queues: {between}, got {len(thresholds)}")


@cache
def bounds(thresholds: tuple[float, ...]) -> Floats:
    """The upper bound of each queue; the last is infinite."""
    return np.array((*thresholds, np.inf))


def levels(jobs: Jobs, thresholds: tuple[float, ...], knob: float) -> Ints:
    """The queue of each job: 0 is served first."""
    passed = bounds(thresholds).searchsorted(jobs.attained)
    passed[is_promoted(jobs.ran, jobs.waited, knob)] = 0
    return passed


def plan(jobs: Jobs, gpus: int, arguments: Arguments, serve: Serve = fitting) -> Ints:
    """By priority, queue, first start, submit time and name: `requested`, if it fits."""
    order = in_order(jobs, levels(jobs, arguments.thresholds, arguments.knob), jobs.first_start)
    return give(jobs, order, jobs.requested, gpus, serve)[0]


def wake_after(jobs: Jobs, workers: Ints, arguments: Arguments) -> float | None:
    """Seconds until the first demotion or promotion, if the jobs run at these sizes until then."""
    ends = bounds(arguments.thresholds)
    runs = workers.nonzero()[0]
    attained = jobs.attained[runs]
    ahead = ends[ends.searchsorted(attained)] - attained
    demotions = ahead / (workers[runs] * jobs.gpus[runs])
    promotions = arguments.knob * jobs.ran - jobs.waited
    comes = promotions > 0  # the job has run and is not promoted yet
    comes &= workers == 0
    comes &= jobs.attained > ends[0]
    first = min(_least(demotions), _least(promotions[comes]))
    return first + LATER if first < math.inf else None


def promotes_after(arguments: Arguments) -> float:
    """How many times its last run a job waits before it is promoted."""
    return arguments.knob


def _least(values: Floats) -> float:
    """The smallest value; infinity for an empty array. Faster than `min` for short arrays."""
    return float(values[values.argmin()]) if len(values) else math.inf
