"""The pause after a cycle, depending on its duration."""

import pytest

from maar.controller.settings.settings import Settings


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(0.0, 0.05, id="two cycles begin at least so far apart"),
        pytest.param(0.01, 0.04, id="a quick one costs no more than that"),
        pytest.param(0.02, 0.18, id="a tenth of the time decides"),
        pytest.param(0.1, 0.9, id="and of a long one too"),
        pytest.param(5.0, 1.0, id="but nobody waits for ever"),
    ],
)
def test_the_pause_after_a_cycle(seconds: float, expected: float) -> None:
    assert pytest.approx(expected) == Settings().pause_after(seconds, 100)


def test_the_pause_can_be_configured() -> None:
    assert 0.5 == Settings(quick=0.0, pause=1.0, longest_pause=9.0).pause_after(0.5, 100)


def test_on_a_quiet_cluster_deciding_takes_at_most_a_quarter_of_the_time() -> None:
    settings = Settings()
    assert [0.01, 0.01, 0.02] == [settings.quiet_distance(seconds) for seconds in (0.0, 0.0025, 0.005)]


def test_room_is_gathered() -> None:
    assert [0.0, 0.005] == [Settings().gather_after(room=room) for room in (False, True)]
    assert [0.3, 0.3] == [Settings(gather=0.3).gather_after(room=room) for room in (False, True)]


def test_no_pause_with_few_changes() -> None:
    assert 0.0 == Settings().pause_after(0.5, 3)
    assert 1.0 == Settings().pause_after(0.5, 4)


def test_after_looking_at_a_crowd_for_few_binds_the_whole_pause_is_kept() -> None:
    settings = Settings()
    assert pytest.approx(0.9) == settings.rest_after(0.1, 2000, 4)
    assert 1.0 == settings.rest_after(0.5, 2000, 4)
    assert [0.0, 0.0, 0.0] == [
        settings.rest_after(0.1, 199, 4),
        settings.rest_after(0.1, 2000, settings.in_flight),
        settings.rest_after(0.01, 2000, 4),
    ]
