"""The rule of each algorithm in small cases computed by hand. Jobs are submitted in the order of their names."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from maar.elastic.allocate import allocate, wake_after
from maar.elastic.jobs import Jobs, make_jobs
from maar.elastic.speedup import LINEAR, curve
from maar.registry import ALGORITHMS, by_name

BY_NAME = by_name(ALGORITHMS)
HALF = curve({1: 1.0, 2: 1.5, 3: 1.75, 4: 1.875})
"""Each worker gains half of what the one before gained."""


def jobs(names: str, **columns: Any) -> Jobs:
    return make_jobs(list(names), submit=np.arange(len(names)), **columns)


def sizes(algorithm: str, table: Jobs, gpus: int, **arguments: object) -> list[int]:
    found = BY_NAME[algorithm]
    workers: list[int] = allocate(found, table, gpus, msgspec.convert(arguments, found.arguments)).tolist()
    return workers


# -- fifo, srjf and their elastic variants


def test_fifo_passes_over_what_does_not_fit() -> None:
    assert [3, 0, 1, 0] == sizes("fifo", jobs("abcd", min=[3, 2, 1, 1], max=8), 4)


def test_fifo_gives_the_minimum_only() -> None:
    assert [1, 1] == sizes("fifo", jobs("ab", max=8, requested=4), 16)


def test_ties_end_by_name() -> None:
    table = make_jobs(["b", "a", "c"], submit=5.0)
    assert [1, 1, 0] == sizes("fifo", table, 2)


def test_a_higher_priority_goes_first_everywhere() -> None:
    table = jobs("ab", priority=[0, 1], remaining=[1.0, 2.0], first_start=[0.0, 1.0])
    assert {name: [0, 1] for name in BY_NAME} == {name: sizes(name, table, 1) for name in BY_NAME}


def test_srjf_goes_by_remaining_time_and_the_unknown_last() -> None:
    assert [0, 1, 1] == sizes("srjf", jobs("abc", remaining=[math.inf, 20, 10]), 2)


def test_elastic_fifo_grows_by_turns() -> None:
    assert [3, 3, 2, 2, 2] == sizes("elastic-fifo", jobs("abcde", max=4), 12)
    assert [4, 2, 4] == sizes("elastic-fifo", jobs("abc", max=[4, 2, 9]), 10)


def test_elastic_fifo_gives_nothing_to_jobs_below_their_minimum() -> None:
    assert [3, 0] == sizes("elastic-fifo", jobs("ab", min=[1, 3], max=4), 3)


def test_elastic_fifo_a_worker_that_does_not_fit_lets_smaller_ones_grow() -> None:
    assert [1, 5] == sizes("elastic-fifo", jobs("ab", max=8, gpus=[8, 1]), 13)


def test_elastic_srjf_grows_by_turns_in_its_order() -> None:
    assert [1, 2, 2] == sizes("elastic-srjf", jobs("abc", max=4, remaining=[30, 20, 10]), 5)


# -- tiresias


def test_tiresias_gives_the_requested_size_or_nothing() -> None:
    assert [4, 0, 2] == sizes("tiresias", jobs("abc", max=8, requested=[4, 3, 2]), 6)


def test_tiresias_jobs_with_much_attained_service_go_last() -> None:
    table = jobs("abc", attained=[3601, 3600, 0], first_start=[0, 1, math.inf])
    assert [0, 1, 0] == sizes("tiresias", table, 1)
    assert [0, 1, 1] == sizes("tiresias", table, 2)


def test_tiresias_counts_attained_service_of_a_whole_life() -> None:
    """Voda restarted the count in every run: a job that was stopped before the threshold was never demoted."""
    table = jobs("ab", attained=[50_000, 100], ran=[10, 100], first_start=[0, 1])
    assert [0, 1] == sizes("tiresias", table, 1)


def test_tiresias_in_a_queue_by_first_start_and_the_never_started_last() -> None:
    assert [0, 0, 1] == sizes("tiresias", jobs("abc", first_start=[math.inf, 7, 3]), 1)


def test_tiresias_promotes_after_a_wait_of_eight_times_the_last_run() -> None:
    table = jobs("ab", attained=[5000, 5000], first_start=[0, 1], waited=[799, 800], ran=[100, 100])
    assert [0, 1] == sizes("tiresias", table, 1)
    assert [1, 0] == sizes("tiresias", table, 1, knob=9)


def test_tiresias_promotes_no_job_at_a_start() -> None:
    """Voda did not reset the waiting counter: 42 of 42 promotions came within seconds of a restart."""
    started = jobs("ab", attained=[5000, 0], first_start=[0, 1], waited=[0, 0], ran=[0, 0])
    assert [0, 1] == sizes("tiresias", started, 1)
    runs = jobs("ab", attained=[5000, 0], first_start=[0, 1], waited=[0, 0], ran=[5, 0])
    assert [0, 1] == sizes("tiresias", runs, 1)


def test_tiresias_more_queues() -> None:
    table = jobs("abc", attained=[300, 150, 50], first_start=[0, 1, 2])
    assert [0, 0, 1] == sizes("tiresias", table, 1, thresholds=[100.0, 200.0], queues=3)
    assert [0, 1, 1] == sizes("tiresias", table, 2, thresholds=[100.0, 200.0])
    assert [1, 0, 0] == sizes("tiresias", table, 1, thresholds=[])


@pytest.mark.parametrize("name", ["tiresias", "elastic-tiresias"])
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"thresholds": [2.0, 1.0]}, "thresholds: expected rising GPU seconds"),
        ({"queues": 3}, "queues: 3 queues have 2 thresholds between them, got 1"),
        ({"knob": 0}, "Expected `float` > 0"),
        ({"thresholds": [0.0]}, "Expected `float` > 0"),
    ],
)
def test_tiresias_refuses_invalid_queues(name: str, bad: dict[str, object], why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert(bad, BY_NAME[name].arguments)


@pytest.mark.parametrize("name", ["tiresias", "elastic-tiresias"])
def test_tiresias_says_when_time_changes_the_answer(name: str) -> None:
    algorithm = BY_NAME[name]
    table = jobs("abc", max=4, gpus=2, attained=[3000, 3590, 9000], ran=[10, 10, 50], waited=[0, 0, 100])
    assert 100.001 == pytest.approx(wake_after(algorithm, table, np.array([3, 0, 1])))
    assert 5.001 == pytest.approx(wake_after(algorithm, table, np.array([3, 1, 0])))
    assert 300.001 == pytest.approx(wake_after(algorithm, table, np.array([0, 0, 0])))
    assert wake_after(algorithm, table, np.array([0, 0, 4])) is None


def test_tiresias_wakes_exactly_when_a_queue_changes() -> None:
    """After these seconds the queue has changed; just before, it has not."""
    table = jobs("ab", max=2, attained=[3000, 9000], first_start=[0, 1], ran=[10, 50], waited=[0, 390])
    assert [1, 0] == sizes("tiresias", table, 1)
    after = wake_after(BY_NAME["tiresias"], table, np.array([1, 0]))
    assert after is not None
    for seconds, expected in ((after - 0.01, 0), (after, 1)):
        later = jobs("ab", max=2, attained=[3000 + seconds, 9000], ran=[10, 50], waited=[0, 390 + seconds])
        assert expected == sizes("tiresias", later, 1, thresholds=[3000.0 + 5])[1]


# -- elastic-tiresias


def test_elastic_tiresias_grows_where_the_gain_is_largest() -> None:
    table = jobs("ab", max=4, speedup=[HALF, curve({1: 1.0, 2: 1.7, 3: 2.2, 4: 2.3})])
    assert [2, 3] == sizes("elastic-tiresias", table, 5)


def test_elastic_tiresias_the_higher_queue_grows_first() -> None:
    table = jobs("ab", max=4, attained=[5000, 0], speedup=[curve({}), HALF])
    assert [1, 4] == sizes("elastic-tiresias", table, 5)


def test_elastic_tiresias_a_waiting_job_takes_its_minimum() -> None:
    table = jobs("ab", min=[1, 2], max=8, requested=[3, 4], speedup=HALF)
    assert [3, 2] == sizes("elastic-tiresias", table, 5)


def test_elastic_tiresias_stops_where_nothing_is_gained() -> None:
    flat = curve({1: 1.0, 2: 1.5, 3: 1.5})
    assert [2, 2] == sizes("elastic-tiresias", jobs("ab", max=8, speedup=flat), 16)


def test_elastic_tiresias_shrinks_the_lower_queue_for_many_that_wait() -> None:
    names = "abcdefghijklm"
    low = jobs(names, max=8, requested=[8] + [4] * 12, attained=5000, first_start=np.arange(13), speedup=HALF)
    assert [1] * 8 + [0] * 5 == sizes("elastic-tiresias", low, 8)
    few = low.only(np.arange(11))
    assert [8] + [0] * 10 == sizes("elastic-tiresias", few, 8), "10 wait: not more than 10"
    assert [1] * 8 + [0] * 3 == sizes("elastic-tiresias", few, 8, compaction=9)


def test_elastic_tiresias_does_not_shrink_the_first_queue() -> None:
    names = "abcdefghijklm"
    top = jobs(names, max=8, requested=[8] + [4] * 12, first_start=np.arange(13), speedup=HALF)
    assert [8] + [0] * 12 == sizes("elastic-tiresias", top, 8)


# -- ffdl


def test_ffdl_finds_the_fastest_sum() -> None:
    """Greedy by gain would give 1 and 2; the minimum of `b` makes 0 and 3 better."""
    table = jobs("ab", min=[1, 3], max=[3, 3], speedup=[HALF, curve({})])
    assert [0, 3] == sizes("ffdl", table, 3)
    assert [1, 3] == sizes("ffdl", table, 4)


def test_ffdl_the_smallest_size_on_ties() -> None:
    assert [3, 1, 0] == sizes("ffdl", jobs("abc", max=3), 4)


def test_ffdl_looks_at_as_many_jobs_as_there_are_gpus() -> None:
    table = jobs("abc", max=2, speedup=[HALF, HALF, curve({1: 3.0})])
    assert [1, 1, 0] == sizes("ffdl", table, 2)


def test_ffdl_serves_the_highest_priority_first() -> None:
    table = jobs("abc", max=4, priority=[0, 1, 0], speedup=[curve({1: 9.0}), HALF, HALF])
    assert [1, 4, 0] == sizes("ffdl", table, 5)


def test_ffdl_has_no_table_to_make_where_all_fits() -> None:
    """A table for two million million GPUs would not fit into memory."""
    table = jobs("ab", max=1_000_000, gpus=[999_999, 1_000_000], speedup=[LINEAR, curve({1: 1.0, 3: 1.5, 9: 1.5})])
    assert [1_000_000, 3] == sizes("ffdl", table, 2 * 10**12)


def test_ffdl_rounding_makes_no_differences() -> None:
    """0.1 + 0.2 equals 0.3 here, in any order of jobs."""
    uneven = [curve({1: 0.1}), curve({1: 0.2}), curve({1: 0.3})]
    assert [1, 1, 0] == sizes("ffdl", jobs("abc", max=1, gpus=[1, 1, 2], speedup=uneven), 2)


def test_ffdl_huge_and_tiny_speeds() -> None:
    assert [4, 1] == sizes("ffdl", jobs("ab", max=4, speedup=[curve({1: 1e200}), curve({1: 1e-200})]), 5)


# -- afs-l


def test_afs_l_the_shorter_starts_first() -> None:
    assert [0, 1] == sizes("afs-l", jobs("ab", max=1, remaining=[20, 10]), 1)


def test_afs_l_by_hand() -> None:
    """Two linear jobs, a: 10 s, b: 100 s.

    1. Both have none: a.
    2. a has 1, b has none: b's (1-0)/1 = 1 is not above a's (2-1)/1 = 1: a.
    3. a has 2: 1 is above (3-2)/2: b.
    4. a has 2 (5 s), b has 1 (100 s): b's (2-1)/2 = 1/2 is not above a's (3-2)/2: a.
    5. a has 3: 1/2 is above 1/3: b.
    6. b has 2 (50 s): b's 1/3 is not above a's 1/3: a.
    """
    table = jobs("ab", max=8, remaining=[10, 100])
    expected = [[1, 0], [2, 0], [2, 1], [3, 1], [3, 2], [4, 2]]
    assert expected == [sizes("afs-l", table, gpus) for gpus in range(1, 7)]


def test_afs_l_a_waiting_job_takes_its_minimum_at_once_if_it_fits() -> None:
    table = jobs("ab", min=[1, 3], max=8, remaining=[10, 100])
    assert [2, 3] == sizes("afs-l", table, 5)
    assert [4, 0] == sizes("afs-l", table, 4)


def test_afs_l_a_job_leaves_at_its_maximum() -> None:
    assert [1, 3] == sizes("afs-l", jobs("ab", max=[1, 3], remaining=[1, 100]), 9)


def test_afs_l_scans_in_order_where_the_rule_goes_in_circles() -> None:
    """Equal jobs: on ties the earlier one counts as the shorter."""
    assert [2, 1, 1] == sizes("afs-l", jobs("abc", max=4, remaining=50), 4)


# -- from papers


def test_srtf_goes_by_the_time_at_the_requested_size() -> None:
    table = jobs("ab", max=4, requested=[1, 4], remaining=[30, 100])
    assert [0, 4] == sizes("srtf", table, 4)


def test_srsf_goes_by_gpu_seconds() -> None:
    table = jobs("ab", max=4, requested=[1, 4], remaining=[30, 100])
    assert [1, 0] == sizes("srsf", table, 4)
    wide = jobs("ab", gpus=[8, 1], remaining=[20, 100])
    assert [0, 1] == sizes("srsf", wide, 8)


def test_optimus_grows_where_remaining_time_drops_most() -> None:
    """a: from 100 s to 50, 33.3 and 25; b: from 60 to 30."""
    table = jobs("ab", max=4, remaining=[100, 60])
    assert [[1, 1], [2, 1], [2, 2], [3, 2]] == [sizes("optimus", table, gpus) for gpus in range(2, 6)]


def test_optimus_the_endless_first_and_nothing_for_nothing() -> None:
    flat = curve({1: 1.0, 2: 1.0})
    table = jobs("abc", max=4, remaining=[9, math.inf, 9], speedup=[flat, curve({}), curve({})])
    assert [1, 4, 2] == sizes("optimus", table, 7)


def test_max_min_grows_the_job_with_the_fewest_gpus() -> None:
    assert [4, 1, 4] == sizes("max-min", jobs("abc", max=8, gpus=[1, 4, 1]), 12)
    assert [1, 2] == sizes("max-min", jobs("ab", min=[1, 2], max=4, gpus=[2, 1]), 4)
