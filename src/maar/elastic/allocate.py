"""Run one algorithm and check its answer.

Callers use this module instead of the algorithm itself. A failed algorithm or an invalid answer is an `InvalidPlan`,
after which the caller keeps all current sizes. If a failure counted as "no workers", it would stop every job of a pool.
"""

from __future__ import annotations

import numpy as np

from maar.config.config import Registration
from maar.elastic.jobs import Ints, Jobs, Mask
from maar.elastic.order import Serve, is_promoted


class InvalidPlan(Exception):
    """An algorithm failed or returned invalid sizes: the caller must not change anything."""


def allocate(
    algorithm: Registration, jobs: Jobs, gpus: int, arguments: object = None, serve: Serve | None = None
) -> Ints:
    """The workers of each job, by row, checked. Without arguments, the algorithm's defaults are used.

    `serve` decides which jobs fit, in the order of the algorithm (see `Registration.serving`); by default GPUs are
    counted.
    """
    name = algorithm.name
    asked = (jobs, gpus, algorithm.arguments() if arguments is None else arguments)
    try:
        answer = algorithm.make(*asked) if serve is None else algorithm.make(*asked, serve)
    except Exception as error:  # third-party algorithms may raise anything
        raise InvalidPlan(f"algorithm `{name}` failed: {type(error).__name__}: {error}") from error
    return checked(name, jobs, gpus, answer)


def wake_after(algorithm: Registration, jobs: Jobs, workers: Ints, arguments: object = None) -> float | None:
    """Seconds until the algorithm's answer changes without any event, if these sizes run until then."""
    if algorithm.wake_after is None:
        return None
    return algorithm.wake_after(jobs, workers, algorithm.arguments() if arguments is None else arguments)


def checked(name: str, jobs: Jobs, gpus: int, answer: object) -> Ints:
    """The answer, if it is valid for these jobs and GPUs."""
    sizes = np.asarray(answer)
    if sizes.shape != (len(jobs),):
        raise InvalidPlan(f"algorithm `{name}`: expected a size for each of {len(jobs)} jobs, got shape {sizes.shape}")
    if sizes.dtype.kind not in "iu":
        if len(jobs) == 0:
            return np.zeros(0, dtype=np.int64)
        raise InvalidPlan(f"algorithm `{name}`: expected whole numbers of workers, got {sizes.dtype}")
    workers: Ints = sizes.astype(np.int64, copy=False)
    wrong = workers < jobs.min
    wrong &= workers != 0
    wrong |= workers > jobs.max
    if np.count_nonzero(wrong):
        row = int(wrong.argmax())
        bounds = f"0 or {jobs.min[row]} to {jobs.max[row]}"
        raise InvalidPlan(f"algorithm `{name}`: job `{jobs.names[row]}`: expected {bounds} workers, got {workers[row]}")
    used = int(workers @ jobs.gpus)
    if used > max(gpus, 0):
        row = int((workers * jobs.gpus).argmax())
        most = f"most by `{jobs.names[row]}`: {workers[row]} workers with {jobs.gpus[row]} GPUs each"
        raise InvalidPlan(f"algorithm `{name}`: expected at most {max(gpus, 0)} GPUs in use, got {used} ({most})")
    return workers


def promoted(algorithm: Registration, jobs: Jobs, arguments: object) -> Mask:
    """Which jobs have waited long enough to be promoted."""
    if algorithm.promotes_after is None:
        return np.zeros(len(jobs), dtype=np.bool_)
    mask: Mask = is_promoted(jobs.ran, jobs.waited, algorithm.promotes_after(arguments))
    return mask
