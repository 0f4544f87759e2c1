"""The engine: the next event, in a fixed order."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from maar.sim.engine import Calendar, SimEvent, SimEventKind


def drain(calendar: Calendar) -> list[tuple[float, list[SimEvent]]]:
    moments = []
    while (moment := calendar.next()) is not None:
        moments.append(moment)
    return moments


def test_one_moment_has_all_that_happens_then_in_the_order_of_kinds() -> None:
    calendar = Calendar()
    calendar.add(2.0, SimEvent(SimEventKind.ARRIVAL, "b"))
    calendar.add(2.0, SimEvent(SimEventKind.END))
    calendar.add(1.0, SimEvent(SimEventKind.ARRIVAL, "a"))
    calendar.add(2.0, SimEvent(SimEventKind.ARRIVAL, "c"))
    assert [
        (1.0, [SimEvent(SimEventKind.ARRIVAL, "a")]),
        (2.0, [SimEvent(SimEventKind.END), SimEvent(SimEventKind.ARRIVAL, "b"), SimEvent(SimEventKind.ARRIVAL, "c")]),
    ] == drain(calendar)


def test_only_the_last_announced_end_counts() -> None:
    calendar = Calendar()
    calendar.add(1.0, SimEvent(SimEventKind.END, "first"))
    calendar.add(5.0, SimEvent(SimEventKind.END, "later"))
    calendar.add(3.0, SimEvent(SimEventKind.NODE, "n"))
    assert [(3.0, [SimEvent(SimEventKind.NODE, "n")]), (5.0, [SimEvent(SimEventKind.END, "later")])] == drain(calendar)


def test_an_end_that_never_comes_takes_the_place_of_the_last() -> None:
    calendar = Calendar()
    calendar.add(1.0, SimEvent(SimEventKind.WAKE))
    calendar.add(math.inf, SimEvent(SimEventKind.WAKE))
    assert [] == drain(calendar)


def test_nearly_equal_times_of_one_kind_are_one_moment_if_the_model_says_so() -> None:
    near, nearer = 1e6 * (1 + 2e-10), 1e6 * (1 + 1e-10)
    for together, kind, moments in (
        (0.0, SimEventKind.ARRIVAL, 2),
        (1e-9, SimEventKind.ARRIVAL, 1),
        (1e-9, SimEventKind.END, 2),
    ):
        calendar = Calendar(together)
        calendar.add(1e6, SimEvent(SimEventKind.ARRIVAL, 1))
        calendar.add(near, SimEvent(kind, 2))
        found = drain(calendar)
        assert (moments, 1e6) == (len(found), found[0][0])
    calendar = Calendar(1e-9)
    for time, kind in ((nearer, SimEventKind.ARRIVAL), (1e6, SimEventKind.END), (1e6, SimEventKind.ARRIVAL)):
        calendar.add(time, SimEvent(kind))
    assert [
        (1e6, [SimEvent(SimEventKind.END), SimEvent(SimEventKind.ARRIVAL), SimEvent(SimEventKind.ARRIVAL)])
    ] == drain(calendar)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([SimEventKind.ARRIVAL, SimEventKind.NODE])), max_size=30))
def test_safety_nothing_is_lost_and_time_never_goes_back(events: list[tuple[int, SimEventKind]]) -> None:
    calendar = Calendar()
    for number, (time, kind) in enumerate(events):
        calendar.add(float(time), SimEvent(kind, number))
    found = drain(calendar)
    assert sorted({float(time) for time, _ in events}) == [now for now, _ in found]
    expected = sorted((float(time), kind, number) for number, (time, kind) in enumerate(events))
    assert expected == [(now, event.kind, event.what) for now, happening in found for event in happening]
