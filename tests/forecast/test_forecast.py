"""Forecasts from small clusters: who starts when, what is never, what is unknown, and what a budget leaves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.subgroups import divided

from maar.config.file import default_config, read_config
from maar.decide import decide
from maar.forecast.candidates import StartCandidates
from maar.forecast.forecast import ROUGH, Forecast, ForecastVerdict, Options, Span, forecast, quantile, span
from maar.forecast.rollout import CAREFUL, EXACT, FAST, SHORT, Precision, precision_for
from maar.forecast.start import StartState, begin, made_pods, settled
from maar.lengths.runtimes import RunSample, RunTimes, Traits
from maar.model.elastic import Past
from maar.model.jobs import Phase, SubgroupPolicy
from maar.model.minimum import has_minimum
from maar.model.plan import Elect, Lock
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.registry import catalog
from maar.sim.cluster import ClusterPlay
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob
from maar.testing.builders import GPU, Gang, Part, cluster, elastic, gang, node

CONFIG = default_config(catalog())
NOW = 10_000.0
FEW = Options(rollouts=4)


def known(seconds: float) -> RunTimes:
    """A history in which all jobs ran equally long."""
    return RunTimes([RunSample(Traits(), seconds)] * 20)


def running(name: str, gpus: int = 8, started: float = NOW - 100.0, on: str = "n1", **job: Any) -> Gang:
    return gang(name, gpu=gpus, on=[on], task={"started": started, "controlled": True}, **job)


def made(*parts: Part, times: RunTimes | None = None, seed: int = 0, **options: Any) -> Forecast:
    return forecast(cluster(*parts), CONFIG, NOW, times or RunTimes(), options=replace(FEW, seed=seed), **options)


def test_a_job_starts_when_the_limit_of_the_running_job_ends() -> None:
    found = made(node("n1", gpu=8), running("first", promise=600.0), gang("next", gpu=8, promise=50.0))
    waits = found.of("ns/next")
    assert waits is not None
    assert ForecastVerdict.EXPECTED is waits.verdict
    assert Span(NOW + 500.0, NOW + 500.0) == waits.start
    assert Span(NOW + 550.0, NOW + 550.0) == waits.finish
    assert 1.0 == waits.within_hour
    assert (4, 4) == (found.rollouts, found.wanted)
    first = found.of("ns/first")
    assert first is not None
    assert (StartState.RUNNING, Span(NOW + 500.0, NOW + 500.0)) == (first.state, first.finish)


def test_run_times_come_from_history() -> None:
    found = made(node("n1", gpu=8), running("first"), gang("next", gpu=8), times=known(4000.0)).of("ns/next")
    assert found is not None
    assert found.start.p50 == pytest.approx(NOW + 3900.0)
    assert 0.0 == found.within_hour


def test_without_history_and_limit_a_start_is_unknown() -> None:
    found = made(node("n1", gpu=8), running("first"), gang("next", gpu=8)).of("ns/next")
    assert found is not None
    assert ForecastVerdict.UNKNOWN is found.verdict
    assert "0 of 4 roll-outs" in found.why
    assert Span() == found.start


def test_a_start_that_does_not_depend_on_unknown_jobs_is_known() -> None:
    scene: list[Part] = [
        node("n1", gpu=8),
        node("n2", gpu=8),
        running("for-ever"),
        running("ends", on="n2", promise=600.0),
    ]
    found = made(*scene, gang("next", gpu=8))
    waits = found.of("ns/next")
    assert waits is not None
    assert NOW + 500.0 == waits.start.p90
    assert Span() == waits.finish, "its own run time is unknown"


def test_a_job_larger_than_any_node_never_starts_and_delays_no_one() -> None:
    scene: list[Part] = [
        node("n1", gpu=8),
        running("first", promise=600.0),
        gang("huge", gpu=16),
        gang("next", gpu=8, promise=9.0),
    ]
    found = made(*scene)
    huge, after = found.of("ns/huge"), found.of("ns/next")
    assert huge is not None
    assert after is not None
    assert ForecastVerdict.NEVER is huge.verdict
    assert "1 pod needs 16 nvidia.com/gpu" in huge.why
    assert NOW + 500.0 == after.start.p90


def test_gangs_start_in_the_order_of_the_scheduler() -> None:
    queue: list[Part] = [gang(f"g{i}", gpu=8, created=float(i), promise=100.0) for i in range(4)]
    important = gang("important", gpu=8, created=50.0, priority=9, promise=100.0, preempts=False)
    first = running("first", promise=200.0, priority=10)
    found = made(node("n1", gpu=8), first, important, *queue)
    starts = {f.job: f.start.p50 for f in found.jobs if f.state is StartState.WAITING}
    assert {"ns/important": 100.0, **{f"ns/g{i}": 200.0 + 100.0 * i for i in range(4)}} == {
        job: (at or 0.0) - NOW for job, at in starts.items()
    }


def test_a_budget_leaves_fewer_roll_outs_and_says_how_many() -> None:
    def after(steps: int) -> Callable[[], bool]:
        left = iter(range(steps))
        return lambda: next(left, None) is not None

    scene: list[Part] = [node("n1", gpu=8), running("first", promise=600.0), gang("next", gpu=8, promise=50.0)]
    budgets = (made(*scene, may_go_on=after(steps)) for steps in range(20))
    some = next(found for found in budgets if found.rollouts == 2)
    assert (2, 4) == (some.rollouts, some.wanted)
    later = math.log(10.0) / math.log(3.0)  # two roll-outs: p90 is later than both
    waits = some.of("ns/next")
    assert waits is not None
    assert NOW + 500.0 == waits.start.p50
    assert waits.start.p90 == pytest.approx(NOW + 500.0 * later)


def test_a_forecast_of_one_job_ends_when_it_has_started() -> None:
    queue = [gang(f"g{i}", gpu=8, created=float(i), promise=100.0) for i in range(9)]
    scene = cluster(node("n1", gpu=8), running("first", promise=600.0), *queue)
    whole, plan = forecast(scene, CONFIG, NOW, RunTimes(), options=FEW), decide(Snapshot(scene), CONFIG, NOW)
    found = forecast(scene, CONFIG, NOW, RunTimes(), options=FEW, plan=plan, only="ns/g2")
    assert whole.of("ns/g2") == found.of("ns/g2")
    assert found.decisions < whole.decisions
    assert found.of("ns/g8") is None


def test_a_roll_out_that_was_not_finished_counts_as_far_as_it_came() -> None:
    """Gangs of 100 s on one node; the first of them starts after 500 s."""
    queue = [gang(f"g{i}", gpu=8, created=float(i), promise=100.0) for i in range(9)]
    scene: list[Part] = [node("n1", gpu=8), running("first", promise=600.0), *queue]
    left = iter(range(6))
    found = made(*scene, may_go_on=lambda: next(left, None) is not None)
    starts = [job for job in found.jobs if job.state is StartState.WAITING]
    assert 0 == found.rollouts
    assert [NOW + 500.0 + 100.0 * i for i in range(9)] == [job.start.p50 for job in starts]
    rough = [job.job for job in starts if job.why == ROUGH]
    assert 0 < len(rough) < 9
    assert all(job.start.p90 == NOW + 1400.0 for job in starts if job.why == ROUGH), "when all work is done"


def test_without_a_roll_out_the_work_ahead_gives_a_rough_answer() -> None:
    """A first job of 600 s and one of 50 s on all GPUs, then one on half of them; nothing is known of the last one."""
    old = [
        gang("next", gpu=8, promise=50.0, created=1.0),
        gang("half", gpu=4, promise=100.0, created=2.0),
        gang("last", gpu=8, created=3.0),
    ]
    scene: list[Part] = [node("n1", gpu=8), running("first", promise=600.0), *old, gang("never", gpu=16)]
    found = made(*scene, may_go_on=lambda: False)
    assert 0 == found.rollouts
    starts = {job.job: (job.verdict, job.start) for job in found.jobs if job.state is StartState.WAITING}
    assert {
        "ns/next": (ForecastVerdict.EXPECTED, Span(NOW + 500.0)),
        "ns/half": (ForecastVerdict.EXPECTED, Span(NOW + 550.0)),
        "ns/last": (ForecastVerdict.EXPECTED, Span(NOW + 600.0, NOW + 600.0)),
        "ns/never": (ForecastVerdict.NEVER, Span()),
    } == starts
    first = made(*scene[:4], may_go_on=lambda: False).of("ns/next")
    assert first is not None
    assert Span(NOW + 500.0, NOW + 600.0) == first.start, "the latest is when all work is done"


def test_a_job_of_unknown_run_time_does_not_hide_the_starts_of_those_that_fit_beside_it() -> None:
    runs = [running("for-ever", 4), running("first", 4, promise=600.0)]
    found = made(node("n1", gpu=8), *runs, gang("next", gpu=4, promise=50.0), may_go_on=lambda: False).of("ns/next")
    assert found is not None
    assert Span(NOW + 500.0, NOW + 550.0) == found.start


def test_nothing_is_known_behind_a_job_of_unknown_run_time() -> None:
    found = made(node("n1", gpu=8), running("first"), gang("next", gpu=8), may_go_on=lambda: False).of("ns/next")
    assert found is not None
    assert (ForecastVerdict.UNKNOWN, "no roll-out was finished in time") == (found.verdict, found.why)


def test_a_running_elastic_job_ends_by_its_speed() -> None:
    """800 s of work on one worker, of which two workers have done 200 s: 300 s are left for both."""
    past = Past(first_start=NOW - 100.0, since=NOW - 100.0, counted=NOW - 100.0)
    grown = elastic("e", 1, 2, on=["n1", "n1"], requested=1, past=past, job={"promise": 800.0})
    found = made(node("n1", gpu=2), grown).of("ns/e")
    assert found is not None
    assert found.finish.p50 == pytest.approx(NOW + 300.0)


def test_work_that_a_job_reports_counts_more_than_history() -> None:
    grown = elastic("e", 1, 2, on=["n1", "n1"], remaining=1000.0)
    found = made(node("n1", gpu=2), grown, times=known(9.0)).of("ns/e")
    assert found is not None
    assert found.finish.p50 == pytest.approx(NOW + 500.0)


def test_groups_without_pods_get_them_when_they_are_admitted() -> None:
    group = gang("later", 2, phase=Phase.PENDING, min_resources={GPU: 16, "cpu": 2000}, promise=50.0)
    group = replace(group, tasks=())
    assert [8, 8] == [dict(t.shape.requests)[GPU] for t in made_pods(group.job, NOW)]
    busy: list[Part] = [running(f"r{i}", on=f"n{i}", promise=600.0 + i) for i in (1, 2)]
    found = made(node("n1", gpu=8), node("n2", gpu=8), *busy, group).of("ns/later")
    assert found is not None
    assert found.start.p50 == pytest.approx(NOW + 502.0)


def test_pods_that_are_being_deleted_are_gone() -> None:
    leaving = gang("old", gpu=8, on=["n1"], task={"status": Status.RELEASING, "node": "n1"})
    scene = cluster(node("n1", gpu=8), leaving, gang("next", gpu=8, promise=10.0))
    assert ["ns/next-0"] == [task.key for task in settled(scene, NOW).tasks]
    found = made(node("n1", gpu=8), leaving, gang("next", gpu=8, promise=10.0)).of("ns/next")
    assert found is not None
    assert NOW == found.start.p50


def test_traits_of_a_job() -> None:
    made_gang = gang("team/bert-20261101", 2, gpu=4, promise=60.0)
    job, tasks = made_gang.job, made_gang.tasks
    found = begin(job, tasks, NOW, "team/vision")
    assert Traits("team", "bert", 8, "team/vision", 60.0) == found.traits
    own = tuple(replace(t, promise=p) for t, p in zip(tasks, (5.0, 7.0), strict=True))
    assert 7.0 == begin(replace(job, promise=None), own, NOW).traits.limit
    half = (own[0], replace(own[1], promise=None))
    assert begin(replace(job, promise=None), half, NOW).traits.limit is None


def test_events_close_together_are_one_moment() -> None:
    ends = [running(f"r{i}", 1, promise=600.0 + i) for i in range(8)]
    scene = cluster(node("n1", gpu=8), *ends, gang("next", gpu=8, promise=50.0))
    exact, batched = (
        forecast(scene, CONFIG, NOW, RunTimes(), options=Options(rollouts=1, precision=one))
        for one in (EXACT, Precision(60.0, 0.0))
    )
    starts = [job.start.p50 for f in (exact, batched) if (job := f.of("ns/next")) is not None]
    assert [NOW + 507.0, NOW + 507.0] == starts
    assert batched.decisions < exact.decisions


def test_roll_outs_are_careful_where_few_jobs_wait_and_fast_in_a_long_backlog() -> None:
    assert (CAREFUL, FAST) == (precision_for(SHORT), precision_for(SHORT + 1))
    ends = [running(f"r{i}", 1, promise=600.0 + 90.0 * i) for i in range(8)]
    for count, as_asked in ((3, CAREFUL), (SHORT + 1, FAST)):
        waits = [gang(f"w{i:03}", gpu=1, promise=50.0, created=float(i)) for i in range(count)]
        scene = cluster(node("n1", gpu=8), *ends, *waits)
        chosen, stated = (
            forecast(scene, CONFIG, NOW, RunTimes(), options=Options(rollouts=1, precision=one))
            for one in (None, as_asked)
        )
        assert (stated.decisions, stated.jobs) == (chosen.decisions, chosen.jobs)


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
"""Without evictions and elections: then no job starts twice, and no start depends on when a job was last looked at."""
SIZES = st.lists(st.sampled_from([1, 1, 1, 2, 4, 8, 16]), min_size=8, max_size=25)


def trace_of(sizes: list[int], seed: int) -> Trace:
    """Jobs that arrive one second apart, whose limits are their true run times."""
    jobs = []
    for i, size in enumerate(sizes):
        seconds = 300.0 + 61.0 * ((i * 7 + seed) % 13)
        queue, priority = "ab"[(i + seed) % 2], (i * seed) % 7 // 6
        job = TraceJob(f"j{i}", float(i), seconds, size, size, min=size, max=size, queue=queue, priority=priority)
        jobs.append(replace(job, limit=seconds))
    return Trace(tuple(jobs))


@settings(max_examples=5)
@given(SIZES, st.integers(0, 12))
def test_with_true_run_times_a_forecast_is_what_the_simulator_does(sizes: list[int], seed: int) -> None:
    """Then nothing is left to guess."""
    play = ClusterPlay(trace_of(sizes, seed), PLAIN, Setting(2, 8))
    while play.step() and len(play.works) + play.done < len(sizes):
        pass
    now, scene = play.plans[0][0], play.virtual.cluster()
    while play.step():
        pass
    true = {f"sim/{record.name}": record.started for record in play.run("true").jobs}
    found = forecast(scene, PLAIN, now, RunTimes(), options=Options(rollouts=1, precision=EXACT))
    assert {f.job: true[f.job] for f in found.jobs if f.state is StartState.WAITING} == {
        f.job: pytest.approx(f.start.p50) for f in found.jobs if f.state is StartState.WAITING
    }


@settings(max_examples=30)
@given(SIZES, st.integers(0, 12))
def test_safety_in_one_queue_without_evictions_the_choice_of_candidates_changes_nothing(
    sizes: list[int], seed: int
) -> None:
    waits = [
        gang(f"g{i}", max(size // 4, 1), gpu=min(size, 4), created=float(i), priority=i * seed % 3, promise=60.0 + i)
        for i, size in enumerate(sizes)
    ]
    runs = [running(f"r{i}", 8, on=f"n{i}", promise=600.0 + 61.0 * i) for i in range(2)]
    scene = cluster(node("n0", gpu=8), node("n1", gpu=8), *runs, *waits)
    exact, chosen = (
        forecast(scene, PLAIN, NOW, RunTimes(), options=Options(rollouts=1, precision=one))
        for one in (EXACT, replace(EXACT, selects=True))
    )
    assert exact.jobs == chosen.jobs


def scenes() -> st.SearchStrategy[Cluster]:
    """Two nodes, some gangs that run on them, and some that wait; some of unknown run time, some too large."""
    limits = st.none() | st.floats(200.0, 5000.0)
    waiting = st.lists(st.tuples(st.sampled_from([1, 2, 8, 16]), limits), min_size=1, max_size=5)
    busy = st.lists(st.tuples(st.sampled_from([1, 2, 4]), limits), max_size=4)

    def build(there: list[tuple[int, float | None]], wait: list[tuple[int, float | None]]) -> Cluster:
        runs = [running(f"r{i}", g, on=f"n{i % 2}", promise=limit) for i, (g, limit) in enumerate(there)]
        waits = [gang(f"w{i}", gpu=g, promise=limit, created=float(i)) for i, (g, limit) in enumerate(wait)]
        return cluster(node("n0", gpu=8), node("n1", gpu=8), *runs, *waits)

    return st.builds(build, busy, waiting)


@settings(max_examples=8)
@given(scenes(), st.sampled_from([RunTimes(), RunTimes(RunSample(Traits(), 60.0 * n) for n in range(1, 30))]))
def test_safety_forecasts_are_in_order_and_do_not_depend_on_the_order_of_input(scene: Cluster, times: RunTimes) -> None:
    found = forecast(scene, CONFIG, NOW, times, options=FEW)
    backwards = replace(scene, jobs=scene.jobs[::-1], tasks=scene.tasks[::-1], nodes=scene.nodes[::-1])
    assert found == forecast(backwards, CONFIG, NOW, times, options=FEW)
    proved = {w.job for w in decide(Snapshot(scene), CONFIG, NOW).waiting for r in w.reasons if r.never is not None}
    assert proved == {f.job for f in found.jobs if f.verdict is ForecastVerdict.NEVER}
    for job in found.jobs:
        for at in (job.start, job.finish):
            assert at.p50 is None or at.p50 >= NOW
            assert at.p90 is None or (at.p50 is not None and at.p50 <= at.p90)
        assert (ForecastVerdict.EXPECTED is job.verdict) == (not job.why)
        if job.start.p50 is not None and job.finish.p50 is not None:
            assert job.start.p50 <= job.finish.p50


def test_what_a_job_draws_does_not_depend_on_others() -> None:
    """Common random numbers: one more job behind all others does not move them."""
    times = RunTimes(RunSample(Traits(), 60.0 * n) for n in range(1, 30))
    scene: list[Part] = [
        node("n1", gpu=8),
        running("first", 8),
        gang("a", gpu=4, created=1.0),
        gang("b", gpu=8, created=2.0),
    ]
    before = made(*scene, times=times)
    after = made(*scene, gang("z", gpu=8, created=3.0), times=times)
    assert [before.of(job) for job in ("ns/a", "ns/b")] == [after.of(job) for job in ("ns/a", "ns/b")]
    assert before.of("ns/b") != made(*scene, times=times, seed=1).of("ns/b")


def test_quantiles_of_times_that_may_be_infinite() -> None:
    assert 2.0 == quantile([1.0, 2.0, 3.0], 0.5)
    assert quantile([1.0, math.inf, math.inf], 0.5) is None
    assert 1.0 == quantile([1.0], 0.9)
    assert Span(5.5, None) == span([*map(float, range(1, 10)), math.inf])
    assert 9.9 == quantile([float(n) for n in range(1, 11)], 0.9)


def test_new_workers_take_the_room_that_is_held_for_them_in_the_same_cycle() -> None:
    """At 500 s the elastic job gets both workers, and runs 800 s of work at twice the speed."""
    waiting = elastic("e", 1, 2, requested=2, suspended=True, job={"promise": 400.0})
    scene = cluster(node("n1", gpu=2), running("first", 2, promise=600.0), waiting)
    found = forecast(scene, CONFIG, NOW, RunTimes(), options=Options(rollouts=1))
    waits = found.of("ns/e")
    assert waits is not None
    assert (NOW + 500.0, NOW + 900.0) == (waits.start.p50, waits.finish.p50)
    assert 1 == found.decisions


def test_a_gang_runs_with_its_roles_and_subgroups_only() -> None:
    roles = gang("a", roles={"w": 2, "ps": 1}, minimum=2, role_min={"ps": 1}, on=["n1"] * 2)
    parts = divided("b", [2, 2], size=2, least=2, minimum=2, on=["n1"] * 3)
    whole = divided("c", [2, 2], size=2, least=2, minimum=2, on=["n1"] * 4)
    found = [begin(made.job, made.tasks, NOW).state for made in (roles, parts, whole)]
    assert [StartState.WAITING, StartState.WAITING, StartState.RUNNING] == found


@pytest.mark.parametrize(
    "rules",
    [{"role_min": {"ps": 1, "worker": 1}}, {"subgroups": (SubgroupPolicy("slice", size=2, least=1),)}],
    ids=["roles", "subgroups"],
)
def test_the_pods_of_a_group_are_its_whole_minimum(rules: dict[str, Any]) -> None:
    """Also by role and subgroup: otherwise no roll-out ever starts it."""
    group = gang("later", 2, phase=Phase.PENDING, min_resources={GPU: 2}, promise=50.0, **rules)
    group = replace(group, tasks=())
    assert has_minimum(group.job, made_pods(group.job, NOW))
    found = made(node("n1", gpu=2), running("r1", 2, promise=600.0), group).of("ns/later")
    assert found is not None
    assert found.start.p50 is not None


def candidates(*gangs: Gang) -> StartCandidates:
    return StartCandidates((one.job, one.tasks) for one in gangs)


def test_without_room_the_first_gangs_of_each_queue_take_part() -> None:
    gangs = [gang(f"{q}{i}", created=float(i), queue=q, priority=i // 3) for i in range(4) for q in "ab"]
    known, scene = candidates(*gangs), Snapshot(cluster(gangs))
    assert {"ns/a3", "ns/a0", "ns/b3", "ns/b0"} == known.chosen(scene, ())
    known.started("ns/a3")
    assert {"ns/a0", "ns/a1", "ns/b0"} == known.chosen(scene, {"ns/b3"})
    assert {"ns/a2", "ns/b1"} == known.resting({"ns/a0", "ns/a1", "ns/b0", "ns/b2", "ns/b3"})


def test_gangs_that_idle_room_holds_take_part_a_few_at_a_time() -> None:
    """Four GPUs are idle: enough for one gang of two subgroups, whatever its minimum of pods is."""
    gangs = [divided(f"g{i}", [2, 2], size=2, least=2, minimum=2, tier=None, created=float(i)) for i in range(9)]
    large = [gang(f"large{i}", 5, created=-1.0 - i) for i in range(2)]
    known, scene = candidates(*gangs, *large), Snapshot(cluster(node("n1", gpu=4), gangs, large))
    front = {"ns/large0", "ns/large1"}
    assert front | {"ns/g0"} == known.chosen(scene, ())
    assert {"ns/g1"} == known.chosen(scene, front | {"ns/g0"})
    assert {f"ns/g{i}" for i in range(1, 5)} == known.chosen(scene, front | {"ns/g0"}, 4.0)


def test_locked_nodes_are_no_room_but_for_the_elected_gang() -> None:
    """And for gangs of higher priority, and those that say how long they run."""
    front = [gang(f"large{i}", 9, priority=10) for i in range(2)]
    rest = [gang("elected", 2), gang("above", 2, priority=1), gang("promises", 2, promise=5.0), gang("plain", 2)]
    scene = cluster(node("n1", gpu=2), front, rest)
    scene = replace(scene, elect=Elect("ns/elected", NOW), locks=(Lock("n1", "ns/elected", NOW),))
    known = candidates(*front, *rest)
    refused = {one.job.key for one in front}
    assert {"ns/elected", "ns/above", "ns/promises"} == known.chosen(Snapshot(scene), refused, 4.0)
