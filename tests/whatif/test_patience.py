"""The limit of a search holds: no decision begins that would end too late."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from maar.whatif.patience import Patience


class Hand:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def asked(patience: Callable[[], bool], hand: Hand, lengths: list[float]) -> int:
    """How many decisions of these lengths begin."""
    for number, length in enumerate(lengths):
        if not patience():
            return number
        hand.at += length
    return len(lengths)


@pytest.mark.parametrize(
    ("seconds", "longest", "lengths", "expected"),
    [
        pytest.param(10.0, 4.0, [4.0, 4.0, 4.0], 2, id="no third one: it would end after 12 s"),
        pytest.param(10.0, 1.0, [1.0, 6.0, 1.0], 2, id="the longest one so far counts"),
        pytest.param(10.0, 43.0, [43.0], 0, id="one alone would take too long"),
        pytest.param(0.0, 0.0, [0.1], 0, id="no time at all"),
        pytest.param(10.0, 0.1, [0.1] * 50, 50, id="time enough"),
    ],
)
def test_no_decision_begins_that_would_end_too_late(
    seconds: float, longest: float, lengths: list[float], expected: int
) -> None:
    hand = Hand()
    assert expected == asked(Patience(seconds, hand, longest), hand, lengths)
    assert hand.at <= 100.0 + seconds


def test_a_decision_before_the_first_question_counts() -> None:
    hand = Hand()
    patience = Patience(10.0, hand)
    hand.at += 6.0
    assert not patience()
