"""The limit of a search holds: no decision begins that would end too late."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from maar.whatif.patience import USUAL, Effort, Patience, usual


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


def test_a_short_decision_may_begin_where_a_whole_one_may_not() -> None:
    hand = Hand()
    patience = Patience(10.0, hand, longest=8.0)
    hand.at += 4.0
    assert not patience(Effort.ALL)
    assert patience(Effort.ONE)
    hand.at += 0.5
    assert patience(Effort.SOME), "at first a part of a whole one counts"
    hand.at += 3.0
    assert not patience(Effort.SOME), "then the longest one so far"
    assert patience(Effort.ONE)
    hand.at += 3.0
    assert not patience(Effort.ONE)


def test_the_time_after_a_refused_decision_counts_for_none() -> None:
    hand = Hand()
    patience = Patience(10.0, hand, longest=20.0)
    assert not patience(Effort.ALL)
    hand.at += 6.0
    assert patience(Effort.ONE)


@pytest.mark.parametrize(("decision", "expected"), [(0.0, USUAL), (0.1, USUAL), (4.0, 2.0)])
def test_the_usual_time_grows_with_decisions(decision: float, expected: float) -> None:
    assert expected == usual(decision)
