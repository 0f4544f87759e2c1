"""Values of annotations."""

import pytest

from maar.kube.wire.values import moment, runtime, whole, yes
from maar.model.durations import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10m", 600),
        ("1h30m", 5400),
        ("90s", 90),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("0", 0),
        (".5s", 0.5),
        ("2d", 172800),
    ],
)
def test_go_durations(text: str, seconds: float) -> None:
    assert seconds == duration(text)


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "-5m", "1h 30m", "5w", "9999999999h", "٣s"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        duration(text)


def test_a_run_time_may_be_plain_seconds() -> None:
    assert (3600.0, 3600.0) == (runtime("3600"), runtime("1h"))
    with pytest.raises(ValueError, match="not a duration: `soon`"):
        runtime("soon")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.5Z", 0.5),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert seconds == moment(text)


@pytest.mark.parametrize("text", ["", "yesterday", "2030-01-01", "2030-01-01T00:00:00"])
def test_invalid_times(text: str) -> None:
    with pytest.raises(ValueError, match="not a time"):
        moment(text)


def test_whole_numbers() -> None:
    assert 3 == whole("3")
    for text in ("-1", "3.5", "x", "99999999999"):
        with pytest.raises(ValueError, match=f"expected a whole number of at least 0, got `{text}`"):
            whole(text)


def test_yes_and_no() -> None:
    assert yes("true")
    assert not yes("False")
    with pytest.raises(ValueError, match="expected `true` or `false`, got `maybe`"):
        yes("maybe")
