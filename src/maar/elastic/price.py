"""price: GPU time has a price, the waiting that it causes; each job gets the size that is worth its price.

Source: Maar's own. A GPU that a job holds for a second delays each job that outlasts it by about one K-th of a second,
on K GPUs. So a size costs a job its own time, plus the time that others wait. Each job's progress is valued at what it
costs at the job's best size; the sizes with the largest sum of values are chosen (`market`).

    T(s)     seconds that the job still needs on s GPUs; r(s) its speed
    key      min over s of T(s) (1 + weight n/K s): the cheapest way to finish, with n jobs on K GPUs
    after    how many jobs have a larger key: who outlasts the job
    worth    min over s of (1 + weight after/K s) / r(s): the cost of a unit of progress
    value(s) worth r(s) (1 - restart/h) if s is a change, else worth r(s); h is how long the choice will last

A length is measured, promised or learnt. A job of unknown length, or that has broken its promise, counts as half done:
it needs as long again as it has run. Which of two jobs lasts longer is then a chance.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec
import numpy as np

from maar.elastic.jobs import Ints, Jobs, Mask
from maar.elastic.market import Choices, choose
from maar.elastic.order import fitting, in_order
from maar.elastic.speedup import Floats

NAME = "price"

YOUNG = 60.0
"""A job of unknown length still needs at least this many seconds at its highest speed. From the prototype."""
SHORTEST = 1.0
"""Seconds that every job still needs, at least: a job that should have ended still gets workers. Tuned by hand."""
LEAST = 1e-3
"""The part of its value that a change keeps, at least: a start that hardly pays is better than an idle GPU."""
TRUSTED = 2
"""A speed-up is trusted up to this multiple of the largest measured size."""
FINE = 128
"""Sizes up to this one are all considered; above it, sizes in steps of at most a 64th. Tuned by hand."""
KEYS = 512
"""Up to this many jobs all pairs are compared; for more, the chance of outlasting others is interpolated."""
LATER = 1e-3
"""Seconds added after a deadline, so that rounding of clocks cannot hide that it is passed. Tuned by hand."""

Seconds = Annotated[float, msgspec.Meta(gt=0, le=1e15)]


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    weight: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 1.0
    """How much the waiting of others counts. With 0 each job only counts its own time."""
    horizon: Seconds = 600.0
    """Seconds within which a change must pay for its restart. From the prototype, as in live pools."""
    patience: Annotated[float, msgspec.Meta(ge=0, le=1e15)] = 600.0
    """Seconds at its minimum after which a job whose speed nobody has measured may grow, with linear speed-up."""
    lengths: Annotated[Literal["known", "unknown"], msgspec.Meta(description="`known` or `unknown`")] = "known"
    """`known` uses the lengths that are reported, promised or learnt; `unknown` uses none."""
    wait: Seconds = 86_400.0
    """Seconds that a job waits in total before it is served first: it then has its minimum until it ends."""
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.25
    """The part of the GPUs for jobs that are served first because they waited; the first of them always fits. Tuned by
    hand: with 1, a pool in which all jobs wait longer than `wait` serves them in the order of submission."""
    interval: Seconds = 60.0
    """Seconds after which sizes are decided again without any event. From the prototype."""
    node: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """GPUs of a node: jobs get powers of two inside a node, or whole nodes. With 0, any size."""


def plan(jobs: Jobs, gpus: int, arguments: Arguments) -> Ints:
    """The sizes with the largest sum of values; the highest priority is served first, and the next shares the rest.

    Before that, `min` by submit time and name for jobs that waited `wait` seconds, then for jobs that nobody measured.
    """
    workers = np.zeros(len(jobs), dtype=np.int64)
    order = in_order(jobs)
    left = gpus
    for rows in np.split(order, np.flatnonzero(np.diff(jobs.priority[order])) + 1):
        if len(rows) and left > 0:
            workers[rows] = _sizes(jobs.only(rows), left, arguments)
            left -= int((workers * jobs.gpus)[rows].sum())
    return workers


def wake_after(jobs: Jobs, workers: Ints, arguments: Arguments) -> float | None:
    """Seconds until the sizes are decided again: the interval, or the time at which a job has waited too long."""
    if len(jobs) == 0:
        return None
    waits = arguments.wait - jobs.delayed[workers == 0]
    return min(arguments.interval, float(waits[waits > 0].min(initial=math.inf)) + LATER)


def _sizes(jobs: Jobs, gpus: int, arguments: Arguments) -> Ints:
    """The sizes of jobs of one priority, in the order of submission."""
    row, size = _considered(jobs, gpus, arguments)
    choices = Choices(row, size * jobs.gpus[row], values(jobs, row, size, gpus, arguments))
    first = _first(jobs, gpus, arguments)
    workers = np.where(first, jobs.min, 0)
    room = gpus - int(workers @ jobs.gpus)
    # A job that is served first keeps its minimum: its choices are the steps from there.
    at_least = first[row] & (size == jobs.min[row])
    base = np.zeros(len(jobs))
    base[row[at_least]] = choices.value[at_least]
    choices.gpus -= (workers * jobs.gpus)[row]
    choices.value -= base[row]
    open_ = np.flatnonzero(choices.gpus > 0)
    chosen = open_[choose(choices.only(open_), room)]
    workers[row[chosen]] = size[chosen]
    return workers


def _first(jobs: Jobs, gpus: int, arguments: Arguments) -> Mask:
    """Jobs that get `min` before any size is weighed: first jobs that waited too long, then unmeasured ones."""
    first = np.zeros(len(jobs), dtype=np.bool_)
    need = jobs.min * jobs.gpus
    late = np.flatnonzero((jobs.delayed >= arguments.wait) & (need <= gpus))
    if len(late):
        room = max(int(arguments.share * gpus), int(need[late[0]]))
        first[late[fitting(late, need[late], room)[0]]] = True
    new = np.flatnonzero(_is_unmeasured(jobs, arguments) & ~first)
    first[new[fitting(new, need[new], gpus - int(need[first].sum()))[0]]] = True
    return first


def _is_unmeasured(jobs: Jobs, arguments: Arguments) -> Mask:
    """Elastic jobs whose speed was never measured, and that have not yet run for long enough to grow without."""
    young: Mask = jobs.attained < arguments.patience * (jobs.min * jobs.gpus)
    young &= (jobs.measured == 0) & (jobs.max > jobs.min)
    return young


def _considered(jobs: Jobs, gpus: int, arguments: Arguments) -> tuple[Ints, Ints]:
    """All sizes that are considered, as (row of the job, workers)."""
    trusted = np.where(jobs.measured > 0, np.maximum(TRUSTED * jobs.measured, jobs.min), jobs.max)
    trusted = np.where(_is_unmeasured(jobs, arguments), jobs.min, trusted)
    most = np.minimum(np.minimum(jobs.max, trusted), gpus // jobs.gpus)
    count = np.maximum(most - jobs.min + 1, 0)
    row: Ints = np.repeat(np.arange(len(jobs)), count)
    size: Ints = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + jobs.min[row]
    good = jobs.curves[jobs.offset[row] + size] > 0
    if len(size) and int(size.max()) > FINE:
        step = 2 ** np.maximum(np.frexp(size)[1].astype(np.int64) - FINE.bit_length() + 1, 0)
        good &= (size % step == 0) | (size == most[row]) | (size == jobs.size[row]) | (size == jobs.min[row])
    if arguments.node:
        each = size * jobs.gpus[row]
        whole = (each % arguments.node == 0) | ((each < arguments.node) & (each & (each - 1) == 0))
        good &= whole | (size == jobs.min[row]) | (size == jobs.size[row])
    return row[good], size[good]


def values(jobs: Jobs, row: Ints, size: Ints, gpus: int, arguments: Arguments) -> Floats:
    """The value of each size; `row` is the job of each, rising."""
    if len(row) == 0:
        return np.zeros(0)
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    there = row[starts]
    """Jobs with at least one size; the others cannot run and are not counted."""
    at = np.repeat(np.arange(len(there)), np.diff(np.append(starts, len(row))))
    takes, speed = size * jobs.gpus[row], jobs.curves[jobs.offset[row] + size]
    left = _left(jobs, arguments)[there]
    known: Mask = left < np.inf
    fastest = np.maximum.reduceat(speed, starts)
    work = np.where(known, left, np.maximum(jobs.done[there], YOUNG * fastest))
    lasts = np.maximum(work[at] / speed, SHORTEST)
    price = arguments.weight / gpus
    key = np.minimum.reduceat(lasts * (1 + price * len(there) * takes), starts)
    worth = np.minimum.reduceat((1 + price * outlasted(key, known)[at] * takes) / speed, starts)
    restart = jobs.restart[there]
    ahead = np.minimum(arguments.horizon, np.minimum.reduceat(lasts, starts) + restart)
    ahead = np.where(known, ahead, np.maximum(ahead, arguments.horizon / 2))
    kept = np.maximum(1 - restart / ahead, LEAST)
    valued: Floats = worth[at] * speed * np.where(size == jobs.size[row], 1.0, kept[at])
    return valued


def _left(jobs: Jobs, arguments: Arguments) -> Floats:
    """The work left, as measured, or else as promised; infinite if nothing is known, or if the promise is broken."""
    if arguments.lengths == "unknown":
        return np.full(len(jobs), np.inf)
    promised = np.where(jobs.done < jobs.promised, jobs.promised - jobs.done, np.inf)
    return np.where(jobs.remaining < np.inf, jobs.remaining, promised)


def outlasted(key: Floats, known: Mask) -> Floats:
    """How many others outlast each job: for two known lengths the larger key; otherwise a chance, by the keys."""
    ordered = np.sort(key[known])
    after: Floats = (len(ordered) - np.searchsorted(ordered, key, side="right")).astype(np.float64)
    after[~known] = _chances(key[~known], key) - 0.5  # without itself
    after[known] += _chances(key[known], key[~known])
    return after


def _chances(key: Floats, others: Floats) -> Floats:
    """For each key, the sum over others of other / (other + key)."""
    if len(key) == 0 or len(others) == 0:
        return np.zeros(len(key))
    if len(key) <= KEYS:
        exact: Floats = (others / (others + key[:, None])).sum(axis=1)
        return exact
    logs = np.log(key)
    points = np.linspace(logs.min(), logs.max(), KEYS)
    sums = np.array([(others / (others + point)).sum() for point in np.exp(points).tolist()])
    near: Floats = np.interp(logs, points, sums)
    return near
