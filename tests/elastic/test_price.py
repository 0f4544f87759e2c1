"""price: the formula and the best sum in plain Python, the gap of large pools, and what bounds its preferences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.elastic.test_properties import tables

from maar.elastic.allocate import allocate
from maar.elastic.jobs import Jobs, make_jobs
from maar.elastic.market import Choices, choose
from maar.elastic.price import Arguments, outlasted, plan
from maar.elastic.speedup import curve
from maar.registry import catalog
from maar.sim.pool import simulate
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob

PRICE = catalog().algorithms["price"]
FEW = curve({1: 1.0, 2: 1.9, 4: 3.4, 8: 5.0})


def priced(jobs: Jobs, gpus: int, **arguments: object) -> list[int]:
    return list(allocate(PRICE, jobs, gpus, msgspec.convert(arguments, Arguments)).tolist())


def lived(jobs: Jobs, seed: int) -> Jobs:
    """The same jobs at some sizes, with restart costs, measurements and delays."""
    dice = np.random.default_rng(seed)
    n = len(jobs)
    return replace(
        jobs,
        size=np.where(dice.random(n) < 0.5, dice.integers(jobs.min, jobs.max + 1), 0),
        measured=dice.choice([0, 1, 2, 8], n),
        restart=dice.choice([0.0, 30.0, 500.0], n),
        done=dice.choice([0.0, 100.0, 1e5], n),
        delayed=dice.choice([0.0, 1e4, 1e5], n, p=[0.6, 0.3, 0.1]),
        promised=dice.choice([50.0, 2e4, np.inf], n),
    )


# -- the formula and the best sum, one job and one size at a time


def considered(jobs: Jobs, row: int, gpus: int, options: Arguments) -> list[int]:
    least, most, measured = int(jobs.min[row]), int(jobs.max[row]), int(jobs.measured[row])
    if measured:
        most = min(most, max(2 * measured, least))
    elif is_new(jobs, row, options):
        most = least
    return [n for n in range(least, most + 1) if n * int(jobs.gpus[row]) <= gpus]


def is_new(jobs: Jobs, row: int, options: Arguments) -> bool:
    short = float(jobs.attained[row]) < options.patience * int(jobs.min[row] * jobs.gpus[row])
    return bool(jobs.measured[row] == 0 and jobs.min[row] < jobs.max[row] and short)


def length(jobs: Jobs, row: int) -> float:
    if jobs.remaining[row] < math.inf:
        return float(jobs.remaining[row])
    return float(jobs.promised[row] - jobs.done[row]) if jobs.done[row] < jobs.promised[row] else math.inf


def overdue(jobs: Jobs, rows: Sequence[int], gpus: int, options: Arguments) -> list[int]:
    """Jobs that waited too long and are served first: in order, as far as a quarter of the GPUs goes; at least one."""
    need = {row: int(jobs.min[row] * jobs.gpus[row]) for row in rows}
    late = [row for row in rows if jobs.delayed[row] >= options.wait and need[row] <= gpus]
    room, served = max(int(options.share * gpus), need[late[0]]) if late else 0, []
    for row in late:
        if need[row] <= room:
            served.append(row)
            room -= need[row]
    return served


def formula(jobs: Jobs, rows: Sequence[int], gpus: int, options: Arguments) -> dict[int, dict[int, float]]:
    """The value of each size of each job of one priority."""
    sizes = {row: considered(jobs, row, gpus, options) for row in rows}
    there = [row for row in rows if sizes[row]]
    speed = {row: jobs.speedup(row).tolist() for row in there}
    width = {row: int(jobs.gpus[row]) for row in there}
    left = {row: length(jobs, row) if options.lengths == "known" else math.inf for row in there}
    known = {row: left[row] < math.inf for row in there}
    lasts, key = {}, {}
    for row in there:
        work = left[row]
        if not known[row]:
            work = max(float(jobs.done[row]), 60 * max(speed[row][n] for n in sizes[row]))
        lasts[row] = {n: max(work / speed[row][n], 1.0) for n in sizes[row]}
        price = options.weight * len(there) / gpus
        key[row] = min(t * (1 + price * n * width[row]) for n, t in lasts[row].items())
    found: dict[int, dict[int, float]] = {}
    for row in there:
        after = 0.0
        for other in there:
            if other != row and known[row] and known[other]:
                after += key[other] > key[row]
            elif other != row:
                after += key[other] / (key[other] + key[row])
        price = options.weight * after / gpus
        worth = min((1 + price * n * width[row]) / speed[row][n] for n in sizes[row])
        restart = float(jobs.restart[row])
        ahead = min(options.horizon, min(lasts[row].values()) + restart)
        if not known[row]:
            ahead = max(ahead, options.horizon / 2)
        kept = max(1 - restart / ahead, 0.001)
        found[row] = {n: worth * speed[row][n] * (1 if n == jobs.size[row] else kept) for n in sizes[row]}
    return found


def best(jobs: Jobs, gpus: int, options: Arguments, workers: Sequence[int]) -> list[tuple[float, float]]:
    """For each priority: the best sum of values, and the sum of these workers, after the jobs that go first."""
    found = []
    runs = [row for row in range(len(jobs)) if jobs.max[row] >= jobs.min[row]]
    for priority in sorted({int(jobs.priority[row]) for row in runs}, reverse=True):
        rows = sorted((r for r in runs if jobs.priority[r] == priority), key=lambda r: (jobs.submit[r], jobs.names[r]))
        value = formula(jobs, rows, gpus, options)
        first = set(overdue(jobs, rows, gpus, options))
        room = gpus - sum(int(jobs.min[row] * jobs.gpus[row]) for row in first)
        for row in rows:
            need = int(jobs.min[row] * jobs.gpus[row])
            if row not in first and is_new(jobs, row, options) and need <= room:
                first.add(row)
                room -= need
        sums = [-math.inf] * (gpus + 1)
        sums[0] = 0.0
        for row in rows:
            choices = {n * int(jobs.gpus[row]): v for n, v in value.get(row, {}).items()}
            if row not in first:
                choices[0] = 0.0
            sums = [max((sums[g - c] + v for c, v in choices.items() if c <= g), default=-math.inf)
                    for g in range(gpus + 1)]  # fmt: skip
        assert all(workers[row] for row in first)
        found.append((max(sums), sum(value[row][workers[row]] for row in rows if workers[row])))
        gpus -= sum(workers[row] * int(jobs.gpus[row]) for row in rows)
    return found


@settings(max_examples=150)
@given(
    jobs=tables(), gpus=st.integers(0, 60), seed=st.integers(0, 2**32), lengths=st.sampled_from(["known", "unknown"])
)
def test_safety_the_sum_of_values_is_the_best(jobs: Jobs, gpus: int, seed: int, lengths: str) -> None:
    jobs = lived(jobs, seed)
    options = msgspec.convert({"lengths": lengths, "weight": 0.5 + seed % 3}, Arguments)
    for most, got in best(jobs, gpus, options, plan(jobs, gpus, options).tolist()):
        assert got == pytest.approx(most, rel=1e-9)


def drawn(seed: int, jobs: int) -> Choices:
    """Choices with values that rise and flatten, and a bump at the size that needs no restart."""
    dice = np.random.default_rng(seed)
    counts = dice.integers(1, 17, jobs)
    job: np.ndarray[tuple[int], np.dtype[np.int64]] = np.repeat(np.arange(jobs), counts)
    size = np.arange(len(job)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    power = dice.uniform(0.4, 1.0, jobs)[job]
    bump = np.where(size == dice.integers(0, 17, jobs)[job], 1.0, dice.choice([0.9, 0.95, 1.0]))
    return Choices(
        job, size * dice.choice([1, 1, 2, 4], jobs)[job], dice.lognormal(0, 2, jobs)[job] * size**power * bump
    )


def total(choices: Choices, rows: np.ndarray[tuple[int], np.dtype[np.int64]], room: int) -> float:
    assert len(set(choices.job[rows].tolist())) == len(rows), "one choice for each job"
    assert int(choices.gpus[rows].sum()) <= room
    return float(choices.value[rows].sum())


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), jobs=st.integers(40, 300), room=st.integers(100, 1200))
def test_safety_prices_are_within_one_percent_of_the_best(seed: int, jobs: int, room: int) -> None:
    choices = drawn(seed, jobs)
    most = total(choices, choose(choices, room), room)
    assert 0.99 * most <= total(choices, choose(choices, room, exact=0), room) <= most * (1 + 1e-9)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), jobs=st.integers(1, 30), room=st.integers(1, 100), more=st.integers(1, 20))
def test_safety_more_gpus_never_make_it_worse(seed: int, jobs: int, room: int, more: int) -> None:
    choices = drawn(seed, jobs)
    fewer = total(choices, choose(choices, room), room)
    assert fewer <= total(choices, choose(choices, room + more), room + more) * (1 + 1e-12)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), jobs=st.integers(40, 200), room=st.integers(100, 600), more=st.integers(1, 100))
def test_safety_more_gpus_make_prices_worse_by_their_gap_at_most(seed: int, jobs: int, room: int, more: int) -> None:
    choices = drawn(seed, jobs)
    fewer = total(choices, choose(choices, room, exact=0), room)
    assert 0.99 * fewer <= total(choices, choose(choices, room + more, exact=0), room + more)


@settings(max_examples=60)
@given(jobs=tables(), gpus=st.integers(1, 40), more=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_safety_a_plan_for_more_gpus_is_worth_at_least_as_much(jobs: Jobs, gpus: int, more: int, seed: int) -> None:
    """At the prices of the smaller pool, for jobs that nobody must serve first and of one priority."""
    jobs = lived(jobs, seed)
    n = len(jobs)
    jobs = replace(jobs, measured=np.full(n, 8), delayed=np.zeros(n), priority=np.zeros(n, dtype=np.int64))
    rows = list(range(n))
    value = formula(jobs, rows, gpus, Arguments())
    sizes = [(row, size) for row in value for size in value[row]]
    listed = Choices(
        np.array([row for row, _ in sizes], dtype=np.int64),
        np.array([size * int(jobs.gpus[row]) for row, size in sizes], dtype=np.int64),
        np.array([value[row][size] for row, size in sizes]),
    )
    fewer = sum(value[row][size] for row, size in enumerate(plan(jobs, gpus, Arguments()).tolist()) if size)
    assert fewer <= total(listed, choose(listed, gpus + more), gpus + more) * (1 + 1e-9)


# -- what it prefers, and what bounds that


def test_the_price_moves_gpus_to_short_jobs() -> None:
    jobs = make_jobs(["short", "long"], min=1, max=8, remaining=[100.0, 1e5], speedup=FEW)
    assert [4, 4] == priced(jobs, 8, weight=0.0), "without a price, both get what speeds them up most"
    assert [6, 2] == priced(jobs, 8)
    assert [8, 0] == priced(jobs, 8, weight=2.0)


def test_a_size_changes_only_if_that_pays_for_the_restart() -> None:
    jobs = make_jobs(["a", "b"], min=1, max=4, remaining=1e4, speedup=FEW, size=[4, 0])
    assert [2, 2] == priced(jobs, 4)
    assert [4, 0] == priced(replace(jobs, restart=np.array([400.0, 400.0])), 4)


def test_a_job_of_unknown_length_shares_the_pool_with_known_ones() -> None:
    jobs = make_jobs(["new", "old", "known"], max=4, remaining=[math.inf, math.inf, 3e4], speedup=FEW,
                     done=[0.0, 1e5, 0.0])  # fmt: skip
    sizes = priced(jobs, 4)
    assert (sizes[0] > 0, sizes[1]) == (True, 0), "the job that has run longest will probably last longest"
    hidden = replace(jobs, remaining=np.full(3, np.inf))
    assert priced(hidden, 4) == priced(replace(jobs, remaining=np.full(3, 7.0)), 4, lengths="unknown")


def test_a_promise_counts_until_it_is_broken() -> None:
    jobs = make_jobs(["honest", "other"], max=4, speedup=FEW, promised=[100.0, math.inf], done=[50.0, 50.0])
    assert [4, 0] == priced(jobs, 4)
    assert [2, 2] == priced(replace(jobs, done=np.array([200.0, 200.0])), 4)
    assert [2, 2] == priced(jobs, 4, lengths="unknown")


def test_many_unknown_lengths_are_compared_like_few() -> None:
    dice = np.random.default_rng(1)
    key = dice.lognormal(5, 2, 2000)
    exact = (key / (key + key[:, None])).sum(axis=1) - 0.5
    assert outlasted(key, np.zeros(2000, dtype=np.bool_)) == pytest.approx(exact, rel=1e-3)


def test_an_unmeasured_job_starts_small_and_first() -> None:
    jobs = make_jobs(["old", "new"], max=8, remaining=[10.0, math.inf], submit=[0.0, 1.0], measured=[8, 0])
    assert [1, 1] == priced(jobs, 2)
    assert [7, 1] == priced(jobs, 8)
    assert [8, 8] == priced(replace(jobs, attained=np.array([0.0, 600.0])), 16), "nobody measures it"
    rigid = make_jobs(["rigid"], min=8)
    assert [8] == priced(rigid, 8), "it has no other size"


def test_a_speedup_is_trusted_up_to_twice_the_largest_measured_size() -> None:
    jobs = make_jobs(["a"], max=16, remaining=1e5, speedup=curve({1: 1.0, 3: 2.9}))
    assert [6] == priced(jobs, 16)


@pytest.mark.parametrize(
    ("gpus", "node", "size"), [(7, 4, 4), (11, 4, 8), (3, 4, 2), (7, 0, 7), (7, 8, 4), (64, 8, 64)]
)
def test_sizes_are_parts_of_a_node_or_whole_nodes(gpus: int, node: int, size: int) -> None:
    assert [size] == priced(make_jobs(["a"], max=64, remaining=1e6, measured=64), gpus, node=node)


def test_large_sizes_are_considered_in_steps() -> None:
    jobs = make_jobs(["a", "b"], min=[1, 3001], max=5000, remaining=1e6, measured=5000, size=[1001, 0])
    a, b = priced(jobs, 4999)
    assert a + b > 0.98 * 4999
    assert [3001] == priced(jobs.only([1]), 3001)


@settings(max_examples=100)
@given(jobs=tables(), gpus=st.integers(0, 60), seed=st.integers(0, 2**32))
def test_safety_promises_do_not_delay_a_job_that_waited_long_enough(jobs: Jobs, gpus: int, seed: int) -> None:
    """Jobs at the bound get their minimum in the order of submission, whatever lengths are promised."""
    jobs = lived(jobs, seed)
    dice = np.random.default_rng(seed)
    lengths = dice.choice([1.0, 50.0, 1e6, np.inf], (2, len(jobs)))
    highest = [row for row in range(len(jobs)) if jobs.priority[row] == jobs.priority.max()]
    highest.sort(key=lambda row: (jobs.submit[row], jobs.names[row]))
    served = overdue(jobs, highest, gpus, Arguments())
    for table in (jobs, replace(jobs, remaining=lengths[0], promised=lengths[1])):
        workers = plan(table, gpus, Arguments())
        assert all(workers[row] >= jobs.min[row] for row in served)


def test_liveness_a_long_job_waits_no_longer_than_the_bound() -> None:
    """Jobs that promise to be short come all the time, and each takes all GPUs."""
    short = [TraceJob(f"short-{i:03}", 90.0 * i, 100.0, 4, workers=4, min=4, max=4) for i in range(200)]
    jobs = Trace((TraceJob("long", 1.0, 5000.0, 4, workers=4, min=4, max=4), *short))
    run = simulate(jobs, PRICE, Setting(1, 4, restart=30.0))
    long = next(job for job in run.jobs if job.name == "long")
    assert long.waited > 15_000, "without a bound they come first"
    bounded = msgspec.structs.replace(PRICE, arguments=Patient)
    run = simulate(jobs, bounded, Setting(1, 4, restart=30.0))
    long = next(job for job in run.jobs if job.name == "long")
    assert long.waited == pytest.approx(2000.0, abs=60.0)
    assert long.restarts <= 1, "from then on it keeps its minimum"


class Patient(Arguments, frozen=True, forbid_unknown_fields=True):
    wait: float = 2000.0


@pytest.mark.parametrize("settings_", [{"weight": -1.0}, {"lengths": "maybe"}, {"wait": 0.0}, {"node": -1}, {"x": 1}])
def test_wrong_arguments(settings_: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(settings_, Arguments)
