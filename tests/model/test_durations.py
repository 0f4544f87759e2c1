"""Durations in configurations and annotations."""

from __future__ import annotations

import pytest

from maar.model.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
        ("2d", 172800.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1m0.5s", 60.5),
        ("3us", 3e-6),
        ("3µs", 3e-6),
        ("0", 0.0),
        (" 5 ", 5.0),
        (5, 5.0),
        (0.25, 0.25),
    ],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert seconds == pytest.approx(parse_duration(text))


@pytest.mark.parametrize("text", ["", "s", "5 s", "5x", "1h-3m", "-5s", "-1", "nan", "inf", "1h30", "five", True])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not a duration: `"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("1e30", "not a duration: `1e30` is longer than 292 years"),
        ("inf", "not a duration: `inf` is longer than 292 years"),
        ("-5", "not a duration: `-5` (must not be negative)"),
        ("9" * 5000, f"not a duration: `{'9' * 40}...` is longer than 292 years"),
    ],
)
def test_a_duration_says_what_is_wrong(value: str, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_duration(value)
    assert why == str(refused.value)
