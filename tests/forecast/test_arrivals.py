"""Future submissions are drawn from the same hour of earlier weeks, from the past only, and delay who they overtake."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from maar.config.file import read_config
from maar.forecast.arrivals import HOUR, WEEK, Submission, arrivals, hours_like
from maar.forecast.forecast import Options, forecast
from maar.forecast.rollout import Arrival
from maar.forecast.runtimes import RunTimes, Sample, Traits
from maar.registry import catalog
from maar.testing.builders import GPU, Part, cluster, gang, node

PLAIN = read_config(
    """
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: binpack}]
""",
    "plain",
    catalog(),
).config
"""Without elections: else the node would be locked for the job that waits already."""
MONDAY = 1000.0 * WEEK * HOUR
"""The begin of some week."""
TIMES = RunTimes([Sample(Traits(), 100.0)] * 20)


def submitted(at: float, gpus: int = 8, **fields: object) -> Submission:
    one = Submission(at, "default", Traits("ns", "old", gpus), 1, ((GPU, gpus), ("cpu", 1000), ("pods", 1)))
    return replace(one, **fields)


def drawn(past: list[Submission], now: float, rollouts: int = 8, ahead: float = HOUR, seed: int = 0) -> list[Arrival]:
    made = arrivals(past, now, TIMES, rollouts=rollouts, ahead=ahead, seed=seed)
    assert rollouts == len(made)
    return [arrival for one in made for arrival in one]


def test_the_same_hour_of_earlier_weeks_is_played_again() -> None:
    """At 10 o'clock of one week one job came, of the other week two; at other hours a hundred."""
    ten = MONDAY + 10 * HOUR
    first = [submitted(ten - 2 * WEEK * HOUR + 600.0)]
    second = [submitted(ten - WEEK * HOUR + 60.0 * i, 4) for i in (20, 40)]
    noise = [submitted(ten - WEEK * HOUR + (4 + i) * HOUR, 1) for i in range(100)]
    made = arrivals([*noise, *first, *second], ten, TIMES, rollouts=8, ahead=HOUR)
    times = [[arrival.at - ten for arrival in one] for one in made]
    assert [4, 4] == [times.count([600.0]), times.count([1200.0, 2400.0])], "draws are spread evenly"
    assert {4, 8} == {arrival.begin.traits.gpus for one in made for arrival in one}
    assert {100} == {round(arrival.seconds) for one in made for arrival in one}


def test_the_rest_of_the_current_hour_counts_from_now() -> None:
    now = MONDAY + 1800.0
    past = [submitted(now - WEEK * HOUR + seconds) for seconds in (-600.0, 600.0)]
    assert {600.0} == {arrival.at - now for arrival in drawn(past, now)}


def test_a_young_history_is_used_by_the_hour_of_the_day_and_then_by_any_hour() -> None:
    assert [100, 76, 52] == hours_like(124, 50, 120)
    assert [36] == hours_like(204, 30, 200)
    assert [9, 8, 7] == hours_like(10, 7, 9)
    assert [] == hours_like(10, 10, 9)
    now = MONDAY + 10 * HOUR
    assert {300.0} == {arrival.at - now for arrival in drawn([submitted(now - HOUR + 300.0)], now, ahead=1800.0)}


def test_elastic_jobs_come_elastic_and_unknown_run_times_do_not_come() -> None:
    past = [submitted(MONDAY - WEEK * HOUR + 9.0, least=1, most=4, workers=2)]
    (job,) = {arrival.job.elastic for arrival in drawn(past, MONDAY, 1)}
    assert job is not None
    assert (1, 4, 2, True) == (job.min, job.max, job.requested, job.suspended)
    assert [] == arrivals(past, MONDAY, RunTimes(), rollouts=1, ahead=HOUR)[0]


@given(st.lists(st.floats(0.0, 4 * WEEK * HOUR), max_size=40), st.floats(0.0, 4 * WEEK * HOUR))
def test_safety_nothing_of_the_future_is_drawn(offsets: list[float], until: float) -> None:
    past = [submitted(MONDAY + at) for at in offsets]
    now = MONDAY + until
    known = [one for one in past if one.at < now]
    made = drawn(past, now, 3, 5 * HOUR)
    assert made == drawn(known, now, 3, 5 * HOUR)
    assert all(now < arrival.at <= now + 5 * HOUR for arrival in made)
    assert len({arrival.job.key for arrival in made}) == len(made)


def test_what_comes_first_by_priority_delays_a_waiting_job() -> None:
    """n1 is free in 500 s. At 400 s comes a more important job of 100 s."""
    task = {"started": MONDAY - 100.0, "controlled": True}
    running = gang("first", gpu=8, on=["n1"], task=task, promise=600.0, priority=99)
    parts: list[Part] = [node("n1", gpu=8), running, gang("next", gpu=8, promise=50.0)]
    scene = cluster(*parts)
    past = [submitted(MONDAY - WEEK * HOUR + 400.0, priority=5, traits=Traits("ns", "old", 8, "", 100.0))]
    future = arrivals(past, MONDAY, RunTimes(), rollouts=4, ahead=HOUR)
    alone, crowded = (
        forecast(scene, PLAIN, MONDAY, RunTimes(), options=Options(rollouts=4), arrivals=a).of("ns/next")
        for a in ((), future)
    )
    assert alone is not None
    assert crowded is not None
    assert (MONDAY + 500.0, MONDAY + 600.0) == (alone.start.p50, crowded.start.p50)
