"""The speed-up model: the epochs that count for a size, the curve beyond them, and the cost of a resize."""

from __future__ import annotations

from itertools import count, pairwise
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.elastic.speedup import curve
from maar.elastic.steps import Basis
from maar.history.estimates import Estimates
from maar.history.model import JOBS, KEYS, OF_ONE, RECENT, SIZES, Model, speedups
from maar.history.records import Event, EventKind, Measurement, Record, time_of

KEY = ("team/vision", "a100")


def told(*records: Record) -> Model:
    """A model fed with records, numbered as by a store."""
    model = Model()
    numbers = count(1)
    for record in records:
        model.feed(msgspec.structs.replace(record, id=next(numbers)))
    return model


def epoch(
    workers: int,
    seconds: float,
    started: float = 0.0,
    number: int = 0,
    *,
    name: str = "resnet",
    key: tuple[str, str] = KEY,
    resized: bool = False,
    total: int | None = None,
    uid: str = "",
) -> Measurement:
    return Measurement(
        *("team", name, number, seconds, workers, started + seconds),
        started=started,
        category=key[0],
        accelerator=key[1],
        resized=resized,
        total_epochs=total,
        uid=uid,
    )


def happened(kind: EventKind, at: float, before: int = 0, after: int = 0, name: str = "resnet", uid: str = "") -> Event:
    return Event("team", name, kind, at, uid=uid, before=before, after=after, category=KEY[0], accelerator=KEY[1])


def test_only_measured_sizes_have_points() -> None:
    model = told(epoch(1, 100), epoch(4, 40))
    assert {KEY: {1: 1.0, 4: 2.5}} == model.points()


def test_one_measurement_touches_no_other_size() -> None:
    before = told(epoch(1, 100), epoch(4, 40)).points()[KEY]
    after = told(epoch(1, 100), epoch(4, 40), epoch(8, 1e6)).points()[KEY]
    assert before == {k: after[k] for k in before}


def test_the_median_counts() -> None:
    assert {1: 1.0, 2: 2.0} == told(
        *(epoch(1, 100) for _ in range(1)), *(epoch(2, s) for s in (50, 49, 5000))
    ).points()[KEY]


def test_old_epochs_are_forgotten() -> None:
    model = told(*(epoch(1, 10) for _ in range(RECENT)), *(epoch(1, 20) for _ in range(RECENT // 2 + 1)))
    assert {1: 20} == model.epoch_times(KEY)


def test_sizes_that_were_not_heard_of_for_long_are_forgotten() -> None:
    model = told(*(epoch(workers, 100) for workers in (*range(1, SIZES + 1), 1, SIZES + 1)))
    assert {1, *range(3, SIZES + 2)} == model.points()[KEY].keys()


def test_categories_that_were_not_heard_of_for_long_are_forgotten() -> None:
    """Any client may invent as many as it likes."""
    numbers = range(KEYS - 1)
    invented = [epoch(1, 100, name=f"job-{i}", key=(f"invented-{i}", "a100"), total=5) for i in numbers]
    model = told(epoch(1, 100), *invented, epoch(2, 50), epoch(1, 100, key=("last", "a100")))
    assert {1: 1.0, 2: 2.0} == model.points_for(KEY)
    assert (KEYS, KEYS) == (len(model.measured()), len(model.points()))
    assert ({}, None) == (model.points_for(("team/invented-0", "a100")), model.total_epochs("team/invented-0"))
    assert 5 == model.total_epochs("team/invented-1")


def test_who_invents_categories_and_jobs_crowds_out_no_one_else() -> None:
    """The namespace with most of them loses its own."""
    other = msgspec.structs.replace(epoch(1, 100), namespace="quiet")
    invented = [epoch(1, 100, name=f"job-{i}", key=(f"invented-{i}", "a100"), total=5) for i in range(KEYS + JOBS)]
    model = told(other, *invented)
    assert {1: 1.0} == model.points_for(("quiet/team/vision", "a100"))
    assert model.job("quiet/resnet") is not None
    assert (KEYS, None) == (len(model.measured()), model.job("team/job-0"))


def test_below_the_smallest_size_measured_it_is_linear() -> None:
    assert {2: 2.0, 4: 3.0} == told(epoch(2, 30), epoch(4, 20)).points()[KEY]


@pytest.mark.parametrize("seconds", [(1e8, 5e-324), (5e-324, 1e8), (1e8, 1e-200, 1e8, 5e-324), (1e-300, 1e-300)])
def test_times_that_cannot_be_make_a_curve_all_the_same(seconds: tuple[float, ...]) -> None:
    """All of these are positive numbers, which the port accepts."""
    model = told(*(epoch(workers, time, total=9) for workers, time in enumerate(seconds, 1)))
    values = Estimates(model).curve(KEY).values(9)
    assert np.isfinite(values).all()
    assert (np.diff(values) >= 0).all()
    left = Estimates(model).remaining("team/resnet", *KEY, None)
    assert left is not None
    assert np.isfinite(left)


def test_an_epoch_that_says_it_was_resized_belongs_to_no_size() -> None:
    assert {} == told(epoch(4, 40, resized=True)).points()


CHANGES = [happened(k, 120.0, 2, 4) for k in (EventKind.STARTED, EventKind.RESIZED, EventKind.SUSPENDED)]


@pytest.mark.parametrize("change", CHANGES, ids=lambda e: str(e.kind))
@pytest.mark.parametrize("late", [False, True])
def test_an_epoch_in_which_accounting_has_a_change_belongs_to_no_size(change: Event, late: bool) -> None:
    spoilt = epoch(4, 40, started=100.0)
    records: list[Record] = [spoilt, change] if late else [change, spoilt]
    assert {} == told(*records).points()
    assert {} == told(*records).epoch_times(KEY)


@pytest.mark.parametrize("at", [99.0, 100.0, 140.0, 141.0])
def test_a_change_at_or_beyond_its_ends_does_not_touch_an_epoch(at: float) -> None:
    assert {KEY: {4: 4.0}} == told(epoch(4, 40, started=100.0), happened(EventKind.RESIZED, at, 2, 4)).points()


def test_a_change_of_another_job_does_not_matter() -> None:
    assert {KEY: {4: 4.0}} == told(epoch(4, 40, 100.0), happened(EventKind.RESIZED, 120.0, 2, 4, "other")).points()


def test_submission_and_end_do_not_change_a_size() -> None:
    model = told(epoch(4, 40, 100.0), happened(EventKind.SUBMITTED, 120.0), happened(EventKind.ENDED, 139.0))
    assert {KEY: {4: 4.0}} == model.points()


def test_without_a_start_the_epoch_is_counted_back_from_its_arrival() -> None:
    silent = Measurement("team", "resnet", 0, 40.0, 4, 140.0, category="vision", accelerator="a100")
    assert {} == told(happened(EventKind.RESIZED, 120.0, 2, 4), silent).points()
    assert {KEY: {4: 4.0}} == told(happened(EventKind.RESIZED, 99.0, 2, 4), silent).points()


def test_the_category_on_other_accelerators_speaks_for_one_that_knows_less_than_two_sizes() -> None:
    v100, t4 = ("team/vision", "v100"), ("team/vision", "t4")
    model = told(
        *(epoch(n, s, key=v100) for n, s in ((1, 100), (2, 60))),
        *(epoch(n, s, key=t4) for n, s in ((1, 300), (2, 200), (4, 150))),
        epoch(4, 10, key=KEY),
    )
    assert {1: 1.0, 2: 1.5, 4: 2.0} == model.points_for(KEY)
    assert {1: 1.0, 2: 1.5, 4: 2.0} == model.points_for(("team/vision", "new"))
    assert {1: 1.0, 2: pytest.approx(100 / 60)} == model.points_for(v100)
    assert {} == model.points_for(("other", "t4"))
    assert {4: 4.0} == model.points()[KEY]


def test_points_are_counted_anew_only_where_something_changed() -> None:
    other = ("team/text", "a100")
    model = told(epoch(1, 100), epoch(1, 50, key=other))
    first = model.points()
    assert first is model.points()
    model.feed(msgspec.structs.replace(epoch(2, 50), id=9))
    assert first[other] is model.points()[other]
    assert {1: 1.0, 2: 2.0} == model.points()[KEY]
    assert {1: 1.0} == first[KEY]


@given(
    st.dictionaries(st.integers(1, 64), st.floats(1e-3, 1e6), min_size=1, max_size=6),
)
def test_safety_curves_of_any_measurements_rise_and_are_concave(times: dict[int, float]) -> None:
    steps = np.diff(curve(speedups(times)).values(80)).tolist()
    assert all(step >= -1e-9 * max(map(abs, steps)) for step in steps)
    assert all(b <= a + 1e-6 * max(map(abs, steps)) for a, b in pairwise(steps))


events = st.builds(
    happened,
    st.sampled_from([EventKind.RESIZED, EventKind.SUSPENDED, EventKind.STARTED]),
    st.integers(0, 300).map(float),
)
epochs = st.builds(
    epoch, st.integers(1, 4), st.integers(1, 50).map(float), st.integers(1, 300).map(float), st.integers(0, 9)
)


@given(st.lists(events | epochs, max_size=12), st.randoms(use_true_random=False))
def test_safety_the_order_of_hearing_does_not_matter_for_points(records: list[Record], random: Random) -> None:
    in_order = sorted(records, key=time_of)
    shuffled = list(records)
    random.shuffle(shuffled)
    assert told(*in_order).epoch_times(KEY) == told(*shuffled).epoch_times(KEY)


# -- remaining time


def remaining(model: Model, job: str = "team/resnet", *key: str, total: int | None = None) -> float | None:
    category, accelerator = key or ("", "")
    return Estimates(model).remaining(job, category, accelerator, total)


def test_remaining_is_epochs_left_on_one_worker() -> None:
    model = told(epoch(1, 100, 0, 0, total=10), epoch(2, 60, 200, 1), epoch(2, 60, 300, 2))
    assert 7 * 100 == remaining(model)


def test_remaining_of_a_job_whose_epochs_are_longer_than_its_categorys() -> None:
    usual = [epoch(1, 100, name="a"), epoch(2, 50, name="a"), epoch(2, 50, name="a")]
    assert 2 * 500 * 2 == remaining(told(*usual, epoch(2, 500, 9, 0, name="b", total=3)), "team/b")


def test_remaining_goes_back_with_the_training() -> None:
    model = told(epoch(1, 100, 0, 5, total=10), epoch(1, 100, 200, 3))
    assert 600 == remaining(model)


def test_remaining_of_a_job_that_never_told_anything() -> None:
    model = told(*(epoch(1, 100, name=f"j{n}", total=10) for n in range(3)))
    assert 1000 == remaining(model, "team/new", *KEY)
    assert 400 == remaining(model, "team/new", *KEY, total=4)
    assert 1000 == remaining(model, "team/new", "team/vision", "elsewhere")
    assert remaining(model, "team/new", "text", "a100", total=4) is None
    assert remaining(told(epoch(1, 100))) is None


def test_nothing_is_left_after_the_last_epoch() -> None:
    assert 0 == remaining(told(epoch(1, 100, 0, 9, total=10)))
    assert 0 == remaining(told(epoch(1, 100, 0, 12, total=10)))


def test_a_new_job_of_the_same_name_begins_anew() -> None:
    old: list[Record] = [happened(EventKind.SUBMITTED, 1, uid="a"), epoch(1, 100, 2, 8, total=10, uid="a")]
    assert 100 == remaining(told(*old))
    for again in (happened(EventKind.SUBMITTED, 300, uid="b"), happened(EventKind.ENDED, 200, uid="a")):
        assert 1000 == remaining(told(*old, again), "team/resnet", *KEY)


# -- cost of a resize


def resized_three_times(first: Measurement, *, known: bool = True) -> float | None:
    """The restart cost after three resizes from 2 to 4 workers at 1000, each followed by the given epoch."""
    records: list[Record] = [epoch(n, s, name="x") for n, s in ((2, 100), (4, 60)) for _ in range(5)] if known else []
    for n in range(3):
        job = f"j{n}"
        records += [happened(EventKind.RESIZED, 1000, 2, 4, job), msgspec.structs.replace(first, name=job)]
    return told(*records).restart(KEY)


def test_a_restart_costs_the_pause_and_what_the_first_epoch_takes_longer() -> None:
    assert 30 + 15 == resized_three_times(epoch(4, 75, started=1030))


def test_a_restart_on_a_size_never_measured_costs_the_pause() -> None:
    assert 30 == resized_three_times(epoch(4, 75, started=1030), known=False)


def test_a_resize_within_an_epoch_costs_what_the_rest_of_it_takes_longer() -> None:
    # Half of the epoch is done on 2 workers at 1000. The other half usually takes 30 s on 4, and took 50 s.
    assert 20 == resized_three_times(epoch(4, 100, started=950, resized=True))


def test_a_resize_within_an_epoch_of_unknown_sizes_says_nothing() -> None:
    assert resized_three_times(epoch(4, 100, started=950, resized=True), known=False) is None


def test_an_hour_of_pause_had_another_reason() -> None:
    assert resized_three_times(epoch(4, 60, started=1000 + 3601)) is None


def test_an_epoch_that_still_ran_on_the_old_size_is_passed_over() -> None:
    records: list[Record] = []
    for n in range(3):
        job = f"j{n}"
        records += [
            happened(EventKind.RESIZED, 1000, 2, 4, job),
            epoch(2, 100, started=905, name=job),
            epoch(4, 60, started=1040, name=job),
        ]
    assert 40 == told(*records).restart(KEY)


def test_few_restarts_are_no_cost_and_the_category_helps_out() -> None:
    def restarts(times: int, key: tuple[str, str]) -> list[Record]:
        return [
            record
            for n in range(times)
            for record in (
                happened(EventKind.RESIZED, 1000, 2, 4, f"{key[1]}{n}"),
                epoch(4, 60, started=1010 + n, name=f"{key[1]}{n}", key=key),
            )
        ]

    assert told(*restarts(2, KEY)).restart(KEY) is None
    model = told(*restarts(2, KEY), *restarts(1, ("team/vision", "t4")))
    assert 10 == model.restart(KEY)
    assert model.restart(("text", "a100")) is None


def test_a_suspension_after_a_resize_tells_no_cost() -> None:
    records: list[Record] = []
    for n in range(3):
        job = f"j{n}"
        records += [
            happened(EventKind.RESIZED, 1000, 2, 4, job),
            happened(EventKind.SUSPENDED, 1010, 4, 0, job),
            happened(EventKind.STARTED, 1500, 0, 4, job),
            epoch(4, 60, started=1520, name=job),
        ]
    assert told(*records).restart(KEY) is None


# -- step times, noise scales and goodput


def stepped(workers: int, step: float, batch: int = 32, **more: object) -> Measurement:
    """An epoch of 1,000 steps of one worker, with a fixed batch per worker."""
    fields = {"step_seconds": step, "global_batch_size": batch * workers, **more}
    return msgspec.structs.replace(epoch(workers, 1000 * step / workers), **fields)


def scaled(workers: int, share: float = 0.1) -> float:
    """Seconds of a step: communication grows with the number of workers."""
    return 1.0 + share * (workers - 1)


def test_three_settings_give_a_fit() -> None:
    model = told(*(stepped(n, scaled(n)) for n in (1, 2)))
    assert (Basis.POINTS, 2) == (Estimates(model).speeds(KEY).basis, Estimates(model).speeds(KEY).measured)
    model = told(*(stepped(n, scaled(n)) for n in (1, 2, 4)))
    speeds = Estimates(model).speeds(KEY)
    assert (Basis.STEPS, 4) == (speeds.basis, speeds.measured)
    points = dict(speeds.points)
    assert points[8] == pytest.approx(8 / 1.7, rel=0.03), "between linear and nothing"
    assert (9, points[8]) == speeds.points[-1], "nothing is believed beyond twice the largest size"
    assert {1: 1.0, 2: 2 / 1.1, 4: 4 / 1.3} == pytest.approx(dict(model.points()[KEY])), "the points are still there"


def test_without_step_times_epochs_are_fitted() -> None:
    records = [stepped(n, scaled(n)) for n in (1, 2, 4)]
    plain = [msgspec.structs.replace(m, step_seconds=None, global_batch_size=None) for m in records]
    with_steps, without = (dict(Estimates(told(*r)).speeds(KEY).points) for r in (records, plain))
    assert with_steps == pytest.approx(without, rel=0.03)
    mixed = Estimates(told(*records[:2], plain[2])).speeds(KEY)
    assert dict(mixed.points) == pytest.approx(without, rel=0.03)


def test_placements_are_told_apart() -> None:
    """Half of the epochs on 4 workers ran on four nodes, at half the speed."""
    near = [stepped(n, scaled(n, 0.02), nodes=1) for n in (1, 2, 4, 4, 4)]
    far = [stepped(4, 2.0, nodes=4) for _ in range(4)]
    model = told(*near, *far)
    assert dict(model.points()[KEY])[4] == pytest.approx(4 / 2.0, rel=0.1)
    assert dict(Estimates(model).speeds(KEY).points)[4] == pytest.approx(4 / 1.06, rel=0.05)


def test_one_job_is_one_voice_among_several() -> None:
    honest = [stepped(n, scaled(n), name=f"run-{i}") for i in range(3) for n in (1, 2, 4, 8) for _ in range(10)]
    liar = [stepped(8, 1e-3, name="run-9") for _ in range(1000)]
    before, after = (dict(Estimates(told(*r)).speeds(KEY).points) for r in (honest, [*honest, *liar]))
    assert before == pytest.approx(after, rel=0.01)
    assert dict.fromkeys((1, 2, 4), 30) | {8: 30 + OF_ONE} == told(*honest, *liar).samples(KEY)


def test_a_noise_scale_counts_for_its_job_and_else_for_its_category() -> None:
    records = [stepped(n, scaled(n, 0.0), noise_scale=noise) for n, noise in ((1, 100.0), (2, 200.0), (4, 300.0))]
    estimates = Estimates(told(*records))
    own, other = estimates.speeds(KEY, "team/resnet"), estimates.speeds(KEY, "team/new")
    assert (Basis.NOISE, Basis.NOISE) == (own.basis, other.basis)
    assert dict(own.points)[4] == pytest.approx(4 * (300 + 32) / (300 + 128), rel=0.03)
    assert dict(other.points)[4] == pytest.approx(4 * (200 + 32) / (200 + 128), rel=0.03)
    elsewhere = Estimates(told(*records, epoch(1, 5.0, name="x", key=("team/other", "a100"))))
    assert Basis.POINTS == elsewhere.speeds(("team/other", "a100"), "team/x").basis


def test_a_goodput_counts_for_its_own_job_only() -> None:
    lie = '{"1": 1.0, "64": 1e9}'
    model = told(*(stepped(n, scaled(n)) for n in (1, 2, 4)), stepped(4, scaled(4), name="liar", goodput=lie))
    estimates = Estimates(model)
    speeds = estimates.speeds(KEY, "team/liar")
    assert (Basis.GOODPUT, 4) == (speeds.basis, speeds.measured)
    assert dict(speeds.points)[8] == pytest.approx(8.0), "at most linear"
    assert (9, dict(speeds.points)[8]) == speeds.points[-1]
    assert Basis.STEPS == estimates.speeds(KEY, "team/resnet").basis


@pytest.mark.parametrize("text", ["{", "[]", '{"x": 1}', '{"0": 1.0}', '{"1": -1.0}', "{}", "null", '{"1": "2"}'])
def test_a_goodput_that_another_program_wrote_wrongly_is_left_out(text: str) -> None:
    estimates = Estimates(told(stepped(1, 1.0, goodput=text)))
    assert Basis.POINTS == estimates.speeds(KEY, "team/resnet").basis


def test_speeds_are_computed_again_only_if_something_changes() -> None:
    model = told(*(stepped(n, scaled(n)) for n in (1, 2, 4)))
    estimates = Estimates(model)
    first = estimates.speeds(KEY, "team/resnet")
    assert first is estimates.speeds(KEY, "team/resnet")
    model.feed(msgspec.structs.replace(stepped(8, 9.0), id=99))
    assert first != estimates.speeds(KEY, "team/resnet")


def test_what_is_left_uses_the_same_speeds() -> None:
    """At its own size a job needs its epochs left, whatever a worker alone is worth."""
    for noise in (None, 0.0, 100.0):
        records = [stepped(n, scaled(n), noise_scale=noise, total_epochs=10, epoch=2) for n in (1, 2, 4)]
        estimates = Estimates(told(*records, stepped(4, scaled(4), name="mine", noise_scale=noise, epoch=2)))
        left = estimates.remaining("team/mine", *KEY, 10)
        assert left is not None
        assert left / estimates.curve(KEY, "team/mine").values(4)[4] == pytest.approx(7 * 1000 * scaled(4) / 4)
