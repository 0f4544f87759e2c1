"""Future submissions are drawn from the same hour of earlier weeks, from the past only, and delay who they overtake."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from maar.config.file import read_config
from maar.forecast.arrivals import (
    DAY,
    HOUR,
    MOST_PODS,
    WEEK,
    Arrivals,
    Asked,
    Pods,
    Submission,
    arrivals_for,
    asked_by,
    hours_like,
    present,
)
from maar.forecast.forecast import Options, begins_of, forecast
from maar.forecast.rollout import Arrival
from maar.lengths.runtimes import RunSample, RunTimes, Traits
from maar.registry import catalog
from maar.testing.builders import GPU, Part, cluster, elastic, gang, node

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
TIMES = RunTimes([RunSample(Traits(), 100.0)] * 20)


def asked(gpus: int = 8, **fields: object) -> Asked:
    return replace(Asked((Pods(1, ((GPU, gpus), ("cpu", 1000), ("pods", 1))),)), **fields)


def submitted(at: float, gpus: int = 8, **fields: object) -> Submission:
    return replace(Submission(at, "default", Traits("ns", "old", gpus), asked(gpus), 100.0), **fields)


def drawn(past: list[Submission], now: float, rollouts: int = 8, ahead: float = HOUR, seed: int = 0) -> list[Arrival]:
    made = Arrivals(past, now, TIMES, rollouts=rollouts, ahead=ahead, seed=seed)
    return [arrival for number in range(rollouts) for arrival in made.of(number)]


def test_the_same_hour_of_earlier_weeks_is_played_again() -> None:
    """At 10 o'clock of two weeks one job came, of two other weeks two; at other hours a hundred."""
    ten = MONDAY + 10 * HOUR
    first = [submitted(ten - weeks * WEEK * HOUR + 600.0) for weeks in (2, 4)]
    second = [submitted(ten - weeks * WEEK * HOUR + 60.0 * i, 4) for i in (20, 40) for weeks in (1, 3)]
    noise = [submitted(ten - WEEK * HOUR + (4 + i) * HOUR, 1) for i in range(100)]
    made = Arrivals([*noise, *first, *second], ten, TIMES, rollouts=8, ahead=HOUR)
    futures = [list(made.of(number)) for number in range(8)]
    times = [[arrival.at - ten for arrival in one] for one in futures]
    assert [4, 4] == [times.count([600.0]), times.count([1200.0, 2400.0])], "draws are spread evenly"
    assert {4, 8} == {arrival.begin.traits.gpus for one in futures for arrival in one}


def test_the_rest_of_the_current_hour_counts_from_now() -> None:
    now = MONDAY + 1800.0
    past = [submitted(now - weeks * WEEK * HOUR + seconds) for seconds in (-600.0, 600.0) for weeks in range(1, 5)]
    assert {600.0} == {arrival.at - now for arrival in drawn(past, now)}


def test_a_young_history_is_used_by_the_hour_of_the_day_and_then_by_any_hour() -> None:
    assert [100, 76, 52, 28] == hours_like(124, 20, 120)
    assert [872, 704, 536, 368] == hours_like(1040, 300, 1030)
    assert [9, 8, 7] == hours_like(10, 7, 9)
    assert [50, 49, 48, 47, 46] == hours_like(51, 46, 50)
    assert [] == hours_like(10, 10, 9)
    now = MONDAY + 10 * HOUR
    assert {300.0} == {arrival.at - now for arrival in drawn([submitted(now - HOUR + 300.0)], now, ahead=1800.0)}


def test_a_job_runs_as_long_as_it_did_and_one_that_has_not_ended_at_least_as_long_as_so_far() -> None:
    short = submitted(MONDAY - HOUR + 9.0, seconds=7.0)
    assert {7.0} == {arrival.seconds for arrival in drawn([short], MONDAY)}
    runs = replace(short, seconds=None)
    assert {100} == {round(arrival.seconds) for arrival in drawn([runs], MONDAY)}
    assert all(arrival.seconds > 500.0 for arrival in drawn([replace(runs, elapsed=500.0)], MONDAY))


def test_the_past_begins_when_the_first_known_job_ended() -> None:
    """A job of a year ago is not one job in a year: the others of that time are not known."""
    old = submitted(MONDAY - 52 * WEEK * HOUR, seconds=None, elapsed=52 * WEEK * HOUR)
    new = [submitted(MONDAY - hour * HOUR + 5.0, ended=MONDAY - hour * HOUR + 6.0) for hour in range(1, 4)]
    first = submitted(MONDAY - 9 * HOUR, ended=MONDAY - 4 * HOUR)
    assert 8 == len(drawn([old, first, *new], MONDAY, ahead=HOUR - 1.0)), "one in each roll-out"


def test_gangs_of_different_pods_come_as_they_were() -> None:
    parts = (Pods(1, (("cpu", 1000), ("pods", 1))), Pods(3, ((GPU, 8), ("pods", 1))))
    past = [submitted(MONDAY - HOUR + 9.0, asked=Asked(parts, 3, priority=7))]
    (arrival,) = drawn(past, MONDAY, 1)
    assert [parts[0].requests, *[parts[1].requests] * 3] == [task.shape.requests for task in arrival.tasks]
    assert (3, 7, {7}) == (arrival.job.min_member, arrival.job.priority, {task.priority for task in arrival.tasks})
    huge = [replace(past[0], asked=Asked((Pods(MOST_PODS + 1, parts[0].requests),)))]
    assert [] == drawn(huge, MONDAY, 1)


def test_jobs_of_the_cluster_are_submissions_too() -> None:
    mine: list[Part] = [
        node("n1", gpu=8),
        gang("runs", gpu=4, on=["n1"], task={"started": MONDAY - 50.0}, created=MONDAY - 60.0, priority=3),
        gang("waits", gpu=8, count=2, created=MONDAY - 20.0),
        elastic("grows", 2, 6, requested=4, job={"created": MONDAY - 10.0}),
    ]
    scene = cluster(*mine)
    found = {one.at: one for one in present(list(begins_of(scene, MONDAY).values()), scene.tasks)}
    runs, waits, grows = (found[MONDAY - age] for age in (60.0, 20.0, 10.0))
    assert (50.0, 3, None) == (runs.elapsed, runs.asked.priority, runs.seconds)
    assert (2, 2, 0) == (waits.asked.pods[0].count, waits.asked.least, waits.asked.most)
    assert (4, 2, 6) == (grows.asked.pods[0].count, grows.asked.least, grows.asked.most)
    assert None is asked_by(scene.jobs[0], ())


def test_too_little_history_gives_no_submissions() -> None:
    scene = cluster(node("n1", gpu=8))
    ends = [MONDAY - DAY * HOUR - 1.0, *[MONDAY - 9.0] * 19]
    past = [submitted(end - 1.0, ended=end) for end in ends]

    def are_drawn(known: list[Submission]) -> bool:
        return arrivals_for(scene, known, MONDAY, TIMES) is not None

    assert are_drawn(past)
    assert not are_drawn(past[:-1]), "few jobs"
    assert not are_drawn([*past[1:], past[-1]]), "less than a day"
    assert not are_drawn([replace(one, ended=None) for one in past]), "none has ended"


def test_elastic_jobs_come_elastic_and_unknown_run_times_do_not_come() -> None:
    wanted = asked(least=1, most=4, pods=(Pods(2, ((GPU, 8), ("pods", 1))),))
    past = [submitted(MONDAY - HOUR + 9.0, asked=wanted, seconds=None)]
    (job,) = {arrival.job.elastic for arrival in drawn(past, MONDAY, 1)}
    assert job is not None
    assert (1, 4, 2, True) == (job.min, job.max, job.requested, job.suspended)
    assert [] == list(Arrivals(past, MONDAY, RunTimes(), rollouts=1, ahead=HOUR).of(0))


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
    past = [submitted(MONDAY - HOUR + 400.0, asked=asked(priority=5))]
    future = Arrivals(past, MONDAY, RunTimes(), rollouts=4, ahead=HOUR).of
    alone, crowded = (
        forecast(scene, PLAIN, MONDAY, RunTimes(), options=Options(rollouts=4), arrivals=a).of("ns/next")
        for a in (None, future)
    )
    assert alone is not None
    assert crowded is not None
    assert (MONDAY + 500.0, MONDAY + 600.0) == (alone.start.p50, crowded.start.p50)


def test_a_roll_out_gets_a_bounded_number_of_submissions() -> None:
    past = [submitted(MONDAY - HOUR + seconds) for seconds in range(50)]
    made = Arrivals(past, MONDAY + 0.5, TIMES, rollouts=1, most=30)
    assert 30 == len(list(made.of(0)))
